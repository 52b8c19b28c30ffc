package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
)

// index is the document with the groups of the navigation.
const index = "docs/README.md"

// A site is documents, by their paths in the repository.
type site struct {
	root   *os.Root
	source string
	pages  map[string]*page
	images map[string]bool
	groups []group
}

// A group is documents below one heading of the index.
type group struct {
	Title string
	pages []*page
}

// read reads the README, the index and what they link. Its error has all problems.
func read(root *os.Root, source string) (*site, error) {
	s := &site{root: root, source: source, pages: map[string]*page{}, images: map[string]bool{}}
	var problems []error
	for next := []string{"README.md", index}; len(next) > 0; next = next[1:] {
		name := next[0]
		if s.pages[name] != nil {
			continue
		}
		text, err := root.ReadFile(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		p, err := parse(name, text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		s.pages[name] = p
		next = append(next, s.linked(p)...)
	}
	s.groups = s.navigation()
	// Links are checked once all headings are known.
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if err := s.resolve(s.pages[name]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// linked returns the documents that a page links and that are there.
func (s *site) linked(p *page) []string {
	var all []string
	for _, link := range p.links {
		if name := s.document(p, link); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// document returns the document that a link of a page leads to, or nothing if it leads to something else.
func (s *site) document(p *page, link *ast.Link) string {
	target, err := url.Parse(string(link.Destination))
	if err != nil || target.IsAbs() || path.Ext(target.Path) != ".md" {
		return ""
	}
	name := path.Join(path.Dir(p.path), target.Path)
	if info, err := s.root.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return name
}

// resolve has the links and images of a page lead to what the site has, or to where the repository is shown.
func (s *site) resolve(p *page) error {
	var problems []error
	for _, link := range p.links {
		to, err := s.target(p, string(link.Destination))
		if err != nil {
			problems = append(problems, fmt.Errorf("link %s: %w", link.Destination, err))
		}
		link.Destination = []byte(to)
	}
	for _, image := range p.images {
		name := path.Join(path.Dir(p.path), string(image.Destination))
		if info, err := s.root.Stat(name); err != nil || !info.Mode().IsRegular() {
			problems = append(problems, fmt.Errorf("image %s: there is no such file", image.Destination))
		}
		s.images[name] = true
	}
	return errors.Join(problems...)
}

// target returns where a link of a page leads on the site.
func (s *site) target(p *page, destination string) (string, error) {
	target, err := url.Parse(destination)
	if err != nil {
		return "", err
	}
	if target.IsAbs() {
		if target.Scheme != "https" && target.Scheme != "http" {
			return "", errors.New("expected https, or a file")
		}
		return destination, nil
	}
	to := p
	if target.Path != "" {
		name := path.Join(path.Dir(p.path), target.Path)
		info, err := s.root.Stat(name)
		switch {
		case err != nil:
			return "", errors.New("there is no such file")
		case s.pages[name] == nil && target.Fragment != "":
			return "", errors.New("headings are in documents only")
		case s.pages[name] == nil:
			return s.shown(name, info), nil
		}
		to = s.pages[name]
		target.Path = relative(p, to)
	}
	if target.Fragment != "" && !to.anchors[target.Fragment] {
		return "", fmt.Errorf("%s has no such heading", to.path)
	}
	return target.String(), nil
}

// shown returns the address of what is no document.
func (s *site) shown(name string, info fs.FileInfo) string {
	if info.IsDir() {
		return s.source + "/tree/main/" + name
	}
	return s.source + "/blob/main/" + name
}

// relative returns the path from one page to another, as in a link.
func relative(from, to *page) string {
	return strings.Repeat("../", strings.Count(from.path, "/")) + to.file
}

// navigation returns the groups of the index: below a heading, the document that each row of a table links first.
func (s *site) navigation() []group {
	from := s.pages[index]
	if from == nil {
		return nil
	}
	var groups []group
	for node := from.tree.FirstChild(); node != nil; node = node.NextSibling() {
		if heading, ok := node.(*ast.Heading); ok && heading.Level == 2 {
			groups = append(groups, group{Title: from.textOf(heading)})
		}
		if node.Kind() != extension.KindTable || len(groups) == 0 {
			continue
		}
		last := &groups[len(groups)-1]
		for row := node.FirstChild(); row != nil; row = row.NextSibling() {
			link, ok := row.FirstChild().FirstChild().(*ast.Link)
			if !ok {
				continue
			}
			if to := s.pages[s.document(from, link)]; to != nil {
				last.pages = append(last.pages, to)
			}
		}
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.pages) == 0 })
}
