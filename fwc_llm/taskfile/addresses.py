"""From where a task file may have its table downloaded, and under which names it is kept."""

from urllib.parse import urlsplit

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_LONGEST_NAME, _DEEPEST = 200, 8  # bytes of one name, folders and file


def is_safe_address(url: str) -> bool:
    """Whether `url` is an https address, or an http one of this machine itself."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)


def is_safe_redirect(before: str, after: str) -> bool:
    """Whether a download may go on there: nobody elsewhere sends it to this machine's own services."""
    inward = urlsplit(after).hostname in _LOOPBACK and urlsplit(before).hostname not in _LOOPBACK
    return is_safe_address(after) and not inward


def is_name_below(name: str) -> bool:
    """Whether `name` names a file in a folder or below it, on every system."""
    parts = name.split("/")
    return (
        name.isprintable()
        and not any(character in name for character in '\\:*?"<>|')
        and all(part.strip(" .") and part[0] != "~" and len(part.encode()) <= _LONGEST_NAME for part in parts)
        and len(parts) <= _DEEPEST
    )
