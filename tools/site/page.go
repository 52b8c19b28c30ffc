package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A page is a document.
type page struct {
	// path is that of the document, and file that of the page on the site.
	path, file string
	title      string
	source     []byte
	tree       ast.Node
	anchors    map[string]bool
	links      []*ast.Link
	images     []*ast.Image
}

// markdown reads what GitHub reads. Styles in attributes are what the policy of pages forbids.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Strikethrough, extension.Linkify,
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 1))),
)

// parse reads a document. The page is never nil.
func parse(name string, source []byte) (*page, error) {
	p := &page{path: name, file: strings.TrimSuffix(name, ".md") + ".html", source: source, anchors: map[string]bool{}}
	if path.Base(name) == "README.md" {
		p.file = path.Join(path.Dir(name), "index.html")
	}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(p))))
	var problems []error
	err := ast.Walk(p.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Link:
			p.links = append(p.links, n)
		case *ast.Image:
			p.images = append(p.images, n)
		case *ast.Heading:
			if n.Level == 1 && p.title == "" {
				p.title = p.textOf(n)
			}
		case *ast.HTMLBlock, *ast.RawHTML:
			if of := raw(n, source); !bytes.HasPrefix(of, []byte("<!--")) && string(of) != newline {
				problems = append(problems, fmt.Errorf("HTML in a document: %.60q", of))
			}
		}
		return ast.WalkContinue, nil
	})
	if p.title == "" {
		problems = append(problems, errors.New("expected a heading of the first level: the title"))
	}
	return p, errors.Join(append(problems, err)...)
}

// newline is the one element that documents have: Markdown has none for the lines of a cell.
const newline = "<br>"

// raw returns the HTML of a node, without the spaces before it.
func raw(node ast.Node, source []byte) []byte {
	if inline, ok := node.(*ast.RawHTML); ok {
		return inline.Segments.Value(source)
	}
	return bytes.TrimSpace(node.Lines().Value(source))
}

var (
	linkTarget = regexp.MustCompile(`\]\([^)\s]+\)`)
	unnamed    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Generate implements [parser.IDs]: it returns the name that GitHub gives to a heading.
func (p *page) Generate(heading []byte, _ ast.NodeKind) []byte {
	name := unnamed.ReplaceAllString(strings.ToLower(linkTarget.ReplaceAllString(string(heading), "]")), "")
	name = strings.ReplaceAll(strings.TrimSpace(name), " ", "-")
	unique := name
	for i := 1; p.anchors[unique]; i++ {
		unique = name + "-" + strconv.Itoa(i)
	}
	p.anchors[unique] = true
	return []byte(unique)
}

// Put implements [parser.IDs].
func (p *page) Put(name []byte) { p.anchors[string(name)] = true }

// textOf returns the text of a node, with single spaces.
func (p *page) textOf(node ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(p.read(n))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(p.source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(p.source))
			}
		case *ast.HTMLBlock, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		default:
			// Blocks, such as the cells of a table, are words of their own.
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// read returns the text that is shown: outside code, a backslash and the name of a character mean another one.
func (p *page) read(n *ast.Text) []byte {
	value := n.Segment.Value(p.source)
	if n.Parent().Kind() == ast.KindCodeSpan {
		return value
	}
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
}

// A section is what the search finds: a heading and the text below it, up to the next one.
type section struct {
	// URL is relative to the root of the site.
	URL string `json:"url"`
	// Page is the title of the page, and Title the heading, which is empty where the page begins.
	Page  string `json:"page"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

func (p *page) sections() []section {
	all := []section{{URL: p.file, Page: p.title}}
	for node := p.tree.FirstChild(); node != nil; node = node.NextSibling() {
		if heading, ok := node.(*ast.Heading); ok {
			if heading.Level > 1 {
				id, _ := heading.AttributeString("id")
				all = append(all, section{URL: p.file + "#" + string(id.([]byte)), Page: p.title, Title: p.textOf(heading)})
			}
			continue
		}
		last := &all[len(all)-1]
		last.Text = strings.TrimSpace(last.Text + " " + p.textOf(node))
	}
	return all
}

var (
	// Tables without names of columns have none to be read out, and a corner is no name.
	noHeader = regexp.MustCompile(`<thead>\n<tr>\n(<th[^>]*></th>\n)+</tr>\n</thead>\n`)
	noName   = regexp.MustCompile(`<th[^>]*></th>`)
)

// html returns the document as HTML.
func (p *page) html() (string, error) {
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, p.source, p.tree); err != nil {
		return "", fmt.Errorf("%s: %w", p.path, err)
	}
	text := noName.ReplaceAllString(noHeader.ReplaceAllString(b.String(), ""), "<td></td>")
	return strings.NewReplacer("<table>", `<div class="scroll"><table>`, "</table>", "</table></div>").Replace(text), nil
}

// nodes renders headings with a link to themselves, and of HTML new lines only.
type nodes struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	nothing := func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) { return ast.WalkSkipChildren, nil }
	r.Register(ast.KindHTMLBlock, nothing)
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && string(raw(node, source)) == newline {
			_, err := w.WriteString(newline)
			return ast.WalkSkipChildren, err
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		heading := node.(*ast.Heading)
		id, _ := heading.AttributeString("id")
		if entering {
			_, err := fmt.Fprintf(w, `<h%d id="%s">`, heading.Level, util.EscapeHTML(id.([]byte)))
			return ast.WalkContinue, err
		}
		_, err := fmt.Fprintf(w, " <a class=\"anchor\" href=\"#%s\" aria-hidden=\"true\" tabindex=\"-1\">#</a></h%d>\n", util.EscapeHTML(id.([]byte)), heading.Level)
		return ast.WalkContinue, err
	})
}
