package lsp

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/rule"
)

// A document is an open file. Its newest text is checked, one text after the other.
type document struct {
	uri    string
	cancel context.CancelFunc

	mu      sync.Mutex
	content *assist.Content
	version int
	// refused is why nothing of the text is kept; empty if it is.
	refused string
	// found is what is wrong with the text of a version.
	found        []assist.Diagnostic
	foundVersion int
	// stop ends checking a text that is not the newest.
	stop context.CancelFunc
	// changed has an element if there is a text that has not been checked.
	changed chan struct{}
}

// longestCheck limits the time of checking a text.
const longestCheck = time.Minute

// open begins to check a file.
func (s *server) open(ctx context.Context, uri string, version int, text string) {
	s.close(uri)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.documents) >= mostOpen {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &document{uri: uri, cancel: cancel, changed: make(chan struct{}, 1), stop: func() {}}
	d.set(version, text)
	s.documents[uri] = d
	go d.run(ctx, s)
}

func (s *server) change(p *changeParams) {
	s.mu.Lock()
	d := s.documents[p.TextDocument.URI]
	s.mu.Unlock()
	if d == nil {
		return
	}
	for _, change := range slices.Backward(p.ContentChanges) {
		// Changes of a part are not asked for.
		if change.Range == nil {
			d.set(p.TextDocument.Version, change.Text)
			return
		}
	}
}

func (s *server) close(uri string) {
	s.mu.Lock()
	d := s.documents[uri]
	delete(s.documents, uri)
	s.mu.Unlock()
	if d != nil {
		d.cancel()
		s.notify("textDocument/publishDiagnostics", diagnosticsParams{identifier: identifier{uri}, Diagnostics: []diagnostic{}})
	}
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.documents {
		d.cancel()
	}
}

// content returns the text of a file, and what is known to be wrong with it; nil if it is not open.
func (s *server) content(uri string) (*assist.Content, []assist.Diagnostic) {
	s.mu.Lock()
	d := s.documents[uri]
	s.mu.Unlock()
	if d == nil {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.foundVersion != d.version {
		return d.content, nil
	}
	return d.content, d.found
}

// set replaces the text.
func (d *document) set(version int, text string) {
	refused := ""
	if size := len(text); size > largestText {
		text, refused = "", fmt.Sprintf("the file has %d bytes, and is not checked: at most %d are; split it", size, largestText)
	}
	d.mu.Lock()
	d.content, d.version, d.refused, d.found = assist.NewContent(text), version, refused, nil
	d.stop()
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// run checks the text whenever it has changed.
func (d *document) run(ctx context.Context, s *server) {
	file := s.service.File(nameOf(d.uri))
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		}
		select {
		case <-ctx.Done():
			return
		case s.checking <- struct{}{}:
		}
		d.check(ctx, s, file)
		<-s.checking
	}
}

// check checks the newest text, and publishes what is wrong with it unless there is a newer one.
func (d *document) check(ctx context.Context, s *server, file *assist.File) {
	ctx, stop := context.WithTimeout(ctx, longestCheck)
	defer stop()
	d.mu.Lock()
	content, version, refused := d.content, d.version, d.refused
	d.stop = stop
	d.mu.Unlock()
	found, err := file.Check(ctx, content.Text)
	if err != nil || ctx.Err() != nil {
		return
	}
	if refused != "" {
		found = []assist.Diagnostic{{Severity: rule.Error, Message: refused}}
	}
	p := diagnosticsParams{identifier: identifier{d.uri}, Version: version, Diagnostics: []diagnostic{}}
	for i := range found {
		if len(p.Diagnostics) == mostDiagnostics {
			break
		}
		p.Diagnostics = append(p.Diagnostics, diagnosticOf(content, &found[i]))
	}
	d.mu.Lock()
	newest := d.version == version
	d.found, d.foundVersion = found, version
	d.mu.Unlock()
	if newest {
		s.notify("textDocument/publishDiagnostics", p)
	}
}

// mostDiagnostics limits what is published about a file.
const mostDiagnostics = 1000

func diagnosticOf(c *assist.Content, d *assist.Diagnostic) diagnostic {
	severity := 2
	if d.Severity == rule.Error {
		severity = 1
	}
	return diagnostic{Range: c.Span(d.Range), Severity: severity, Source: "usher", Message: d.Message}
}

// nameOf returns the name of a file, by which it is YAML or JSON.
func nameOf(uri string) string {
	name := path.Base(uri)
	if u, err := url.Parse(uri); err == nil {
		name = path.Base(u.Path)
	}
	if strings.EqualFold(path.Ext(name), ".json") {
		return "policies.json"
	}
	return fmt.Sprintf("%s.yaml", strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".yml"))
}
