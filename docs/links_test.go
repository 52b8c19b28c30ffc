package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// link matches the target of a link.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// mention matches a document that something other than a document names.
	mention = regexp.MustCompile(`\bdocs/[\w./-]+\.md(#[\w-]+)?`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline  = regexp.MustCompile("`[^`\n]*`")
)

// TestLinks checks that what documents link, and what code, charts and messages call a document,
// exists, with its heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	links, mentions := 0, 0
	walkFiles(t, func(path string, text string) {
		if filepath.Ext(path) != ".md" {
			for _, found := range mention.FindAllString(text, -1) {
				mentions++
				checkLink(t, path, filepath.Join(root, "x"), found)
			}
			return
		}
		for _, found := range link.FindAllStringSubmatch(inline.ReplaceAllString(fenced.ReplaceAllString(text, ""), ""), -1) {
			if target, err := url.Parse(found[1]); err != nil || target.IsAbs() {
				continue
			}
			links++
			checkLink(t, path, path, found[1])
		}
	})
	if links < 300 || mentions < 5 {
		t.Errorf("found %d links in documents, and %d documents that other files name", links, mentions)
	}
}

// checkLink reports a target that is not there. It is relative to the folder of base.
func checkLink(t *testing.T, path, base, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	document := base
	if file != "" {
		document = filepath.Join(filepath.Dir(base), filepath.FromSlash(file))
	}
	info, err := os.Stat(document)
	if err != nil {
		t.Errorf("%s: %s: there is no %s", path, target, document)
		return
	}
	if anchor == "" {
		return
	}
	if info.IsDir() || filepath.Ext(document) != ".md" {
		t.Errorf("%s: %s: headings are in documents only", path, target)
		return
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !anchors(string(text))[anchor] {
		t.Errorf("%s: %s: %s has no such heading", path, target, document)
	}
}

// anchors returns the names that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.ToLower(link.ReplaceAllString(found[1], "]"))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		name = strings.ReplaceAll(name, " ", "-")
		unique := name
		for i := 1; names[unique]; i++ {
			unique = name + "-" + strconv.Itoa(i)
		}
		names[unique] = true
	}
	return names
}

// TestIndex checks that the index links every document, in the groups that it has, and that the README
// is short and about object policies.
func TestIndex(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, found := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(index), -1) {
		groups = append(groups, found[1])
	}
	if diff := cmp.Diff([]string{"Start", "Write", "Run", "Operate", "Extend", "Understand"}, groups); diff != "" {
		t.Errorf("groups of the index (-want +got):\n%s", diff)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, folders...) {
		if page != "README.md" && strings.Count(string(index), "]("+filepath.ToSlash(page)+")") != 1 {
			t.Errorf("the index has not exactly one link to %s", page)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, want at most 150: most belongs on a page", lines)
	}
	if named := regexp.MustCompile(`\bkinitiras\b[^.(]|OverridePolicy|ValidatePolicy`).FindAllString(string(readme), -1); len(named) != 1 {
		t.Errorf("README.md names the kinds of kinitiras in %q, want one place", named)
	}
}

// TestAnchors compares the names of headings with those that GitHub gives them.
func TestAnchors(t *testing.T) {
	t.Parallel()
	names := anchors("# At 3 a.m.\n\n```console\n# no heading\n```\n## `usher check`: what it says\n## Same\n## Same\n## [Linked](x.md) heading\n")
	for name, reason := range map[string]string{
		"at-3-am":                  "dots are left out",
		"usher-check-what-it-says": "so are backticks and colons",
		"same":                     "the first of its name",
		"same-1":                   "the second of its name",
		"linked-heading":           "the text of a link, without its target",
	} {
		if !names[name] {
			t.Errorf("%s is missing (%s): %v", name, reason, names)
		}
	}
	if len(names) != 5 {
		t.Errorf("got %d names, want 5: a comment in a block is no heading: %v", len(names), names)
	}
}

// walkFiles calls f for the text files of the repository.
func walkFiles(t *testing.T, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "try" || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		switch filepath.Ext(path) {
		case ".md", ".go", ".yaml", ".sh", ".txt", ".tpl", ".txtar":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f(path, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
