package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A shown page is one of a written site, as a browser reads it.
type shown struct {
	ids   map[string]bool
	links []string
	// loads are the files that the page loads, and problems what it must not have.
	loads, problems []string
	titles          int
}

func show(t *testing.T, file string) *shown {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := html.Parse(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{ids: map[string]bool{}}
	for node := range tree.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		if node.Data == "h1" {
			s.titles++
		}
		for _, a := range node.Attr {
			switch {
			case a.Key == "id" && s.ids[a.Val]:
				s.problems = append(s.problems, "two elements have the id "+a.Val)
			case a.Key == "id":
				s.ids[a.Val] = true
			case a.Key == "href" && node.Data == "a":
				s.links = append(s.links, a.Val)
			case a.Key == "src" || a.Key == "href":
				s.loads = append(s.loads, a.Val)
			case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
				s.problems = append(s.problems, fmt.Sprintf("the attribute %s=%q, which the policy of the page forbids", a.Key, a.Val))
			}
		}
		if (node.Data == "script" || node.Data == "style") && node.FirstChild != nil {
			s.problems = append(s.problems, node.Data+" in the page, which its policy forbids")
		}
	}
	return s
}

// TestSite: on the site of this repository no link and no anchor is dead, every page can be reached from the first
// one, and nothing is loaded from another origin.
func TestSite(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if err := run([]string{"-root", "../..", "-out", out}, io.Discard); err != nil {
		t.Fatal(err)
	}
	pages := map[string]*shown{}
	err := filepath.WalkDir(out, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".html" {
			name, _ := filepath.Rel(out, file)
			pages[filepath.ToSlash(name)] = show(t, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 100 {
		t.Errorf("%d pages", len(pages))
	}
	reached := map[string]bool{"index.html": true}
	for next := []string{"index.html"}; len(next) > 0; next = next[1:] {
		for _, to := range check(t, out, pages, next[0]) {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for name := range pages {
		if !reached[name] {
			t.Errorf("%s: no page links it", name)
		}
	}
	for _, name := range []string{"docs/index.html", "docs/install.html", "docs/reference/kinds.html", "docs/reference/cel.html", "docs/reference/cli/check.html"} {
		if pages[name] == nil {
			t.Errorf("there is no page %s", name)
		}
	}
	checkSearch(t, out, pages)
}

// check checks a page, and returns those that it links.
func check(t *testing.T, out string, pages map[string]*shown, name string) []string {
	t.Helper()
	p := pages[name]
	for _, problem := range p.problems {
		t.Errorf("%s: %s", name, problem)
	}
	if p.titles != 1 {
		t.Errorf("%s: %d headings of the first level", name, p.titles)
	}
	for _, file := range p.loads {
		if _, err := os.Stat(filepath.Join(out, path.Dir(name), file)); err != nil || strings.Contains(file, ":") {
			t.Errorf("%s: loads %s", name, file)
		}
	}
	var all []string
	for _, link := range p.links {
		target, err := url.Parse(link)
		if err != nil || target.IsAbs() && target.Scheme != "https" && target.Scheme != "http" || !target.IsAbs() && target.Host != "" {
			t.Errorf("%s: link %s: %v", name, link, err)
		}
		if err != nil || target.IsAbs() {
			continue
		}
		to := name
		if target.Path != "" {
			to = path.Join(path.Dir(name), target.Path)
			all = append(all, to)
		}
		if pages[to] == nil || target.Fragment != "" && !pages[to].ids[target.Fragment] {
			t.Errorf("%s: link %s is dead", name, link)
		}
	}
	return slices.DeleteFunc(all, func(to string) bool { return pages[to] == nil })
}

// checkSearch: what is found leads to a section, and every page can be found.
func checkSearch(t *testing.T, out string, pages map[string]*shown) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "search.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 2<<20 {
		t.Errorf("the search loads %d bytes", len(text))
	}
	var sections []section
	if err := json.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	found, said := map[string]bool{}, 0
	for _, s := range sections {
		file, id, _ := strings.Cut(s.URL, "#")
		if pages[file] == nil || id != "" && !pages[file].ids[id] {
			t.Errorf("the search leads to %s", s.URL)
		}
		found[file] = true
		if strings.Contains(s.Text, "cosign verify-blob") {
			said++
		}
	}
	if len(found) != len(pages) || said == 0 {
		t.Errorf("the search finds %d of %d pages, and %d with a command of a block", len(found), len(pages), said)
	}
}

// repository writes documents to a folder: the index, the README, and those of the test, which are below docs.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{"README.md": "# Usher\n\n[all](docs/README.md)\n", index: "# Documents\n\n## Start\n\n| | |\n|---|---|\n| [a](a.md) | b |\n", icon: "<svg/>"}
	for name, text := range files {
		all["docs/"+name] = text
	}
	for name, text := range all {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestProblems: what is wrong with documents is an error that names it, and nothing is written.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, text, want string }{
		{"a dead link", "# A\n\n[b](b.md)\n", "a.md: link b.md: there is no such file"},
		{"a dead anchor", "# A\n\n[b](README.md#nothing)\n", "docs/README.md has no such heading"},
		{"a dead anchor of the page itself", "# A\n\n[b](#nothing)\n", "a.md has no such heading"},
		{"an anchor of what is no document", "# A\n\n[b](../web#nothing)\n", "headings are in documents only"},
		{"a script in a link", "# A\n\n[b](javascript:alert%281%29)\n", "expected https"},
		{"out of the repository", "# A\n\n[b](../../../../../../etc/passwd)\n", "there is no such file"},
		{"a picture that is not there", "# A\n\n![b](b.png)\n", "image b.png"},
		{"a picture of another origin", "# A\n\n![b](https://example.com/b.png)\n", "image https://example.com/b.png"},
		{"an element", "# A\n\n<script>alert(1)</script>\n", "HTML in a document"},
		{"an element in a line", "# A\n\nb <img src=x onerror=alert(1)> c\n", "HTML in a document"},
		{"no title", "text\n", "expected a heading of the first level"},
	} {
		out := t.TempDir()
		err := run([]string{"-root", repository(t, map[string]string{"a.md": row.text}), "-out", out}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, expected %q", row.reason, err, row.want)
		}
		if written, err := os.ReadDir(out); err != nil || len(written) > 0 {
			t.Errorf("%s: %v are written: %v", row.reason, written, err)
		}
	}
	if err := run([]string{"-root", repository(t, map[string]string{"a.md": "# A\n"})}, io.Discard); err == nil {
		t.Error("a site is written to nowhere")
	}
}

// TestLinksOutside: a link in the repository that leads out of it is not followed.
func TestLinksOutside(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(secret, []byte("# Secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := repository(t, map[string]string{"a.md": "# A\n\n[b](b.md)\n"})
	if err := os.Symlink(secret, filepath.Join(root, "docs", "b.md")); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-root", root, "-out", t.TempDir()}, io.Discard); err == nil {
		t.Error("a file out of the repository is a page")
	}
}

// TestPage: headings have the anchors that GitHub gives them, what is text stays text, and what is no document is a
// link to where the repository is shown.
func TestPage(t *testing.T) {
	t.Parallel()
	const text = "# A & <b>\n\n## At 3 a.m.\n\n## `usher check`: it\n\n## Same\n\n## Same\n\n## [Linked](a.md) heading\n\n" +
		"<!-- console: skip it -->\n```console\n$ cat </script> && true\n```\n\nx <!-- y --> z\n\n" +
		"[icon](../web/console/src/icon.svg) [folder](../web) [other](b.md#b) <https://example.com/?a=1&b=2>\n\n| | b |\n|---|--:|\n| c<br>d | e |\n"
	out := t.TempDir()
	root := repository(t, map[string]string{"a.md": strings.Replace(text, "<b>", "\\<b>", 1), "b.md": "# B\n", "a/c.md": "# C\n"})
	if err := run([]string{"-root", root, "-out", out, "-source", "https://example.com/usher"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(out, "docs/a.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>A &amp; &lt;b&gt; · Usher</title>", `id="at-3-am"`, `id="usher-check-it"`, `id="same"`, `id="same-1"`, `id="linked-heading"`,
		"$ cat &lt;/script&gt; &amp;&amp; true", "<td></td>", "c<br>d", `align="right"`, `href="../docs/b.html#b"`,
		`href="https://example.com/usher/blob/main/web/console/src/icon.svg"`, `href="https://example.com/usher/tree/main/web"`,
		`href="https://example.com/?a=1&amp;b=2"`, `<li><a href="../docs/a.html" aria-current="page">A &amp; &lt;b&gt;</a>`,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(string(content), "<!--") || strings.Contains(string(content), "skip it") {
		t.Error("the page has comments")
	}
	if t.Failed() {
		t.Logf("%s", content)
	}
	if _, err := os.Stat(filepath.Join(out, "docs/a/c.html")); err == nil {
		t.Error("a document that nothing links is a page")
	}
}
