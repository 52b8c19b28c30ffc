package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// An entry is a line of the navigation.
type entry struct {
	Title, URL string
	Current    bool
	Below      []entry
}

// A view is what the layout shows.
type view struct {
	Title, Root, Source string
	Groups              []struct {
		Title   string
		Entries []entry
	}
	Content template.HTML
}

// icon is the one of usher console.
const icon = "web/console/src/icon.svg"

// write writes the site to a folder.
func (s *site) write(folder string) error {
	if folder == "" {
		return errors.New("-out is required")
	}
	files := map[string][]byte{}
	var sections []section
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		content, err := s.render(p)
		if err != nil {
			return err
		}
		files[p.file] = content
		sections = append(sections, p.sections()...)
	}
	search, err := json.Marshal(sections)
	if err != nil {
		return err
	}
	files["search.json"] = search
	for name := range s.images {
		if files[name], err = s.root.ReadFile(name); err != nil {
			return err
		}
	}
	if files["icon.svg"], err = s.root.ReadFile(icon); err != nil {
		return err
	}
	for _, name := range []string{"site.css", "site.js"} {
		if files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return err
		}
	}
	for name, content := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) render(p *page) ([]byte, error) {
	content, err := p.html()
	if err != nil {
		return nil, err
	}
	v := view{
		Title: p.title, Root: strings.Repeat("../", strings.Count(p.path, "/")), Source: s.source + "/blob/main/" + p.path,
		Content: template.HTML(content), //nolint:gosec // goldmark has escaped it, and HTML in documents is an error
	}
	for _, g := range s.groups {
		var entries []entry
		for _, of := range g.pages {
			entries = append(entries, s.entry(p, of))
		}
		v.Groups = append(v.Groups, struct {
			Title   string
			Entries []entry
		}{g.Title, entries})
	}
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// entry returns the line of a page, seen from another: with the pages of its folder if that one is there.
func (s *site) entry(from, to *page) entry {
	e := entry{Title: to.title, URL: relative(from, to), Current: from == to}
	folder := strings.TrimSuffix(to.path, ".md") + "/"
	if path.Base(to.path) == "README.md" {
		folder = path.Dir(to.path) + "/"
	}
	// The README of the repository has everything below it.
	if folder == "./" || from != to && !strings.HasPrefix(from.path, folder) {
		return e
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if p := s.pages[name]; strings.HasPrefix(name, folder) && p != to {
			e.Below = append(e.Below, entry{Title: p.title, URL: relative(from, p), Current: from == p})
		}
	}
	return e
}
