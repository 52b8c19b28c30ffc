package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/library"
	"github.com/usher-dev/usher/source/dir"
)

// A Question is a sentence that a user got.
type Question struct {
	Message string `json:"message"`
	// Policies are those of the page.
	Policies string `json:"policies,omitempty"`
}

// Reasons are what says a sentence.
type Reasons struct {
	Matches []Reason `json:"matches"`
}

// A Reason is a rule that says it.
type Reason struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	// Text is the source of the rule, in line Line of File, and Policies are all of the policy.
	Text string `json:"text"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Explain says what the rule is for, and what is allowed.
	Explain string `json:"explain"`
	// Exempt is a command that writes an exemption, after a comment about its files.
	Exempt   string `json:"exempt"`
	Policies string `json:"policies"`
}

// named finds the policies that a sentence names: as Usher does at its end, and as API servers do.
var named = []*regexp.Regexp{
	regexp.MustCompile(`\((\w+Policy) ((?:[\w.-]+/)?[\w.-]+)(?:; [^()]*)?\)`),
	regexp.MustCompile(`(\w+AdmissionPolicy) '([\w.-]+)'`),
}

// maxMessage is the length to which a sentence is read.
const maxMessage = 16 << 10

// A placed is a policy with its text.
type placed struct {
	api.Policy

	file, text string
}

func (b *bench) why(_ context.Context, in *Question) (*Reasons, error) {
	message := in.Message[:min(len(in.Message), maxMessage)]
	wanted := map[string]bool{}
	for _, pattern := range named {
		for _, m := range pattern.FindAllStringSubmatch(message, -1) {
			wanted[m[1]+" "+m[2]] = true
		}
	}
	known, err := b.known(in.Policies)
	if err != nil {
		return nil, err
	}
	found, seen := &Reasons{[]Reason{}}, map[string]bool{}
	for i := range known {
		ref := compile.Ref(known[i].Object).String()
		if seen[ref] || len(wanted) > 0 && !wanted[ref] {
			continue
		}
		// The page and the folder may have one that the library has: the first is meant.
		seen[ref] = true
		reasons, err := known[i].reasons(message, wanted[ref])
		if err != nil {
			return nil, err
		}
		found.Matches = append(found.Matches, reasons...)
	}
	if len(found.Matches) == 0 {
		if len(wanted) == 0 {
			return nil, errors.New("the sentence names no policy: paste all of it, with the end in parentheses, such as (ClusterObjectPolicy require-team)")
		}
		for ref := range wanted {
			return nil, fmt.Errorf("%s is not on the page, in the folder or in the library: open the folder that has it with -p", printable.Line(ref))
		}
	}
	return found, nil
}

// known returns the policies of the page, the folder and the library.
func (b *bench) known(page string) ([]placed, error) {
	var all []placed
	add := func(file, text string) {
		for _, p := range dir.Parse(path.Base(file), []byte(text)).Policies {
			all = append(all, placed{p, file, text})
		}
	}
	add("", page)
	if b.folder != nil {
		names, err := b.folder.Files()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			// What cannot be read has no policy.
			if text, err := b.folder.Read(name); err == nil {
				add(name, text)
			}
		}
	}
	packs, err := library.Packs()
	if err != nil {
		return nil, err
	}
	for i := range packs {
		for n := range packs[i].Policies {
			if p := &packs[i].Policies[n]; p.Origin == p.Pack {
				add("library/"+p.Pack+"/"+p.File+".yaml", string(p.Text))
			}
		}
	}
	return all, nil
}

func treeOf(p *api.Policy) (map[string]any, error) {
	encoded, err := json.Marshal(p.Object)
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	var tree map[string]any
	err = json.NewDecoder(bytes.NewReader(encoded)).Decode(&tree)
	return tree, err
}

// A part is an item of a policy that may say something.
type part struct {
	field string
	tree  map[string]any
}

// reasons returns the parts of a policy that say a message: those with its text, or else, if it names the policy, those
// that make their text.
func (p *placed) reasons(message string, named bool) ([]Reason, error) {
	tree, err := treeOf(&p.Policy)
	if err != nil {
		return nil, err
	}
	spec, _ := tree["spec"].(map[string]any)
	var exact, others []part
	for _, field := range listed {
		items, _ := spec[field].([]any)
		for i, item := range items {
			one, _ := item.(map[string]any)
			of := part{fmt.Sprintf("spec.%s[%d]", field, i), one}
			if text := textOf(one); text != "" && strings.Contains(message, text) {
				exact = append(exact, of)
			} else if text == "" && field != "mutations" && field != "overrideRules" {
				others = append(others, of)
			}
		}
	}
	if len(exact) == 0 && named {
		exact = others
	}
	if len(exact) == 0 && named {
		exact = []part{{"spec", spec}}
	}
	reasons := make([]Reason, len(exact))
	for i, of := range exact {
		if reasons[i], err = p.reason(of, spec); err != nil {
			return nil, err
		}
	}
	return reasons, nil
}

// textOf returns the message that a part of a policy has as it is; empty if an expression makes it.
func textOf(tree map[string]any) string {
	if tree["messageExpression"] != nil {
		return ""
	}
	text, _ := tree["message"].(string)
	return strings.TrimSpace(text)
}

// written returns the part of a text that begins in a line, as it was written: an item of a list or a field in block style,
// without the indentation of its first line. It is empty for others.
func written(text string, line int) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	lines = lines[line-1:]
	first := strings.TrimLeft(lines[0], " ")
	indent := len(lines[0]) - len(first)
	if !strings.HasPrefix(first, "- ") && strings.TrimRight(first, " \r") != "spec:" {
		return ""
	}
	end := 1
	for n := 1; n < len(lines); n++ {
		rest := strings.TrimLeft(lines[n], " ")
		if strings.TrimSpace(rest) == "" {
			continue
		}
		if len(lines[n])-len(rest) <= indent {
			break
		}
		end = n + 1
	}
	var out strings.Builder
	for _, l := range lines[:end] {
		out.WriteString(strings.TrimRight(l[min(indent, len(l)):], "\r") + "\n")
	}
	return out.String()
}

func (p *placed) reason(of part, spec map[string]any) (Reason, error) {
	ref := compile.Ref(p.Object)
	at := p.Position(of.field).Line
	source := written(p.text, at)
	if source == "" {
		encoded, err := printable.YAML(of.tree)
		if err != nil {
			return Reason{}, fmt.Errorf("encode rule: %w", err)
		}
		source = string(encoded)
	}
	said, _ := of.tree["name"].(string)
	if said == "" {
		said = of.field
	}
	var explained []string
	if text, _ := spec["description"].(string); text != "" {
		explained = append(explained, strings.Join(strings.Fields(text), " "))
	}
	if text, _ := of.tree["expression"].(string); text != "" {
		explained = append(explained, "A request is allowed if this holds: "+strings.Join(strings.Fields(text), " "))
	}
	if links, _ := spec["links"].([]any); len(links) > 0 {
		explained = append(explained, fmt.Sprintf("See %v", links[0]))
	}
	return Reason{
		Policy: ref.String(), Rule: said, Text: source, File: p.file, Line: at,
		Explain: strings.Join(slices.Compact(explained), "\n\n"), Policies: p.text,
		Exempt: exempting(p.file),
	}, nil
}

// exempting returns a command that writes an exemption from a policy of a file, after a comment that says which of its
// files somebody has to write first. A policy of the page has no file.
func exempting(file string) string {
	about := "refused.yaml is the object that was refused"
	switch {
	case file == "":
		file, about = "policies.yaml", "policies.yaml is the policies of the page, "+about
	case strings.HasPrefix(file, "library/"):
		file, about = "policies.yaml", "policies.yaml is "+printable.Line(file)+", "+about
	}
	return "# " + about + "\nusher exempt -p '" + strings.ReplaceAll(file, "'", `'\''`) + "' -f refused.yaml --reason WHY --owner WHO"
}
