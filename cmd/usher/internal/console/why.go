package console

import (
	"bytes"
	"cmp"
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
	wanted := mentioned(message)
	known, err := b.known(in.Policies)
	if err != nil {
		return nil, err
	}
	var all []ranked
	seen := map[string]bool{}
	for i := range known {
		ref := compile.Ref(known[i].Object).String()
		place, isNamed := wanted[ref]
		if seen[ref] || len(wanted) > 0 && !isNamed {
			continue
		}
		// The page and the folder may have one that the library has: the first is meant.
		seen[ref] = true
		reasons, err := known[i].reasons(message, isNamed)
		if err != nil {
			return nil, err
		}
		for n := range reasons {
			reasons[n].place = place
		}
		all = append(all, reasons...)
	}
	if len(all) == 0 {
		if len(wanted) == 0 {
			return nil, errors.New("the sentence names no policy: paste all of it, with the end in parentheses, such as (ClusterObjectPolicy require-team)")
		}
		for ref := range wanted {
			return nil, fmt.Errorf("%s is not on the page, in the folder or in the library: open the folder that has it with -p", printable.Line(ref))
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(a.place-b.place, b.said-a.said) })
	found := &Reasons{make([]Reason, len(all))}
	for i := range all {
		found.Matches[i] = all[i].Reason
	}
	return found, nil
}

// mentioned returns the policies that a message names, with the places where they are: those that only warn are behind
// those that deny.
func mentioned(message string) map[string]int {
	places := map[string]int{}
	for _, pattern := range named {
		for _, m := range pattern.FindAllStringSubmatchIndex(message, -1) {
			ref, place := message[m[2]:m[3]]+" "+message[m[4]:m[5]], m[0]
			if line := message[strings.LastIndexByte(message[:place], '\n')+1:]; strings.HasPrefix(strings.TrimSpace(line), "Warning:") {
				place += maxMessage
			}
			if before, ok := places[ref]; !ok || place < before {
				places[ref] = place
			}
		}
	}
	return places
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
	// said is how much of the message it says.
	said int
}

// A ranked is a reason with how likely it is meant.
type ranked struct {
	Reason

	// place is where the message names the policy, and said how much of the text of the rule it has.
	place, said int
}

// reasons returns the parts of a policy that say a message: those with its text, and, if it names the policy, those that
// make as much of its text.
func (p *placed) reasons(message string, named bool) ([]ranked, error) {
	tree, err := treeOf(&p.Policy)
	if err != nil {
		return nil, err
	}
	spec, _ := tree["spec"].(map[string]any)
	var exact, others []part
	for _, field := range listed {
		items, _ := spec[field].([]any)
		for i, item := range items {
			of := part{field: fmt.Sprintf("spec.%s[%d]", field, i)}
			of.tree, _ = item.(map[string]any)
			if text := textOf(of.tree); text != "" && strings.Contains(message, text) {
				of.said = len(text)
				exact = append(exact, of)
			} else if text == "" && named && field != "mutations" && field != "overrideRules" {
				of.said = of.makes(message)
				others = append(others, of)
			}
		}
	}
	least := 0
	for _, of := range exact {
		least = max(least, of.said)
	}
	found := slices.Concat(exact, slices.DeleteFunc(others, func(of part) bool { return of.said < least }))
	if len(found) == 0 && named {
		found = []part{{field: "spec", tree: spec}}
	}
	reasons := make([]ranked, len(found))
	for i, of := range found {
		reasons[i].said = of.said
		if reasons[i].Reason, err = p.reason(of, spec); err != nil {
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

// literal matches the constant texts of CEL and CUE.
var literal = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)

// makes returns how much of a message the constant texts of a part are that makes its own, and its expression, which is the
// message without any.
func (of part) makes(message string) int {
	said := 0
	for _, field := range []string{"messageExpression", "cue"} {
		text, _ := of.tree[field].(string)
		for _, quoted := range literal.FindAllString(text, -1) {
			if constant := quoted[1 : len(quoted)-1]; strings.Contains(message, constant) {
				said += len(constant)
			}
		}
	}
	if text, _ := of.tree["expression"].(string); text != "" && strings.Contains(message, strings.TrimSpace(text)) {
		said += len(text)
	}
	return said
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
