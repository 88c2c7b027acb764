"""The table of contents has every heading, each with a name of its own."""

import re

from fwc_llm.report.html.contents import PLACE, with_contents

PAGE = f"""<h1>Title</h1>{PLACE}
<section id="run-1"><h2>One</h2><h3>Every row</h3><h3 id="kept">Cost</h3></section>
<section id="run-2"><h2 class="x">Two &lt;b&gt; <small>more</small></h2><h3>Every row</h3>
<h4>Not listed</h4></section>"""


def test_every_heading_has_a_link_that_leads_to_it() -> None:
    page = with_contents(PAGE)
    links = re.findall(r'<a href="#([^"]+)">([^<]*)</a>', page)
    assert [title for _, title in links] == [
        "One", "Every row", "Cost", "Two &lt;b&gt; more", "Every row",
    ]  # fmt: skip
    names = [name for name, _ in links]
    assert len(set(names)) == 5
    assert "kept" in names
    assert all(page.count(f' id="{name}"') == 1 for name in names)
    assert "Not listed" not in re.sub("<h4>.*?</h4>", "", page)


def test_a_page_with_two_headings_needs_no_contents() -> None:
    assert "<nav" not in with_contents(f"{PLACE}<h2>a</h2><h3>b</h3>")
    assert with_contents("<h2>no place for it</h2>") == "<h2>no place for it</h2>"
