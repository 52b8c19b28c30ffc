package library_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/library"
)

const document = "../docs/library.md"

// marks are around the part of the document that is generated.
const (
	begin = "<!-- generated from library/ by make generate: begin -->\n"
	end   = "<!-- generated: end -->\n"
)

// TestDocument compares the lists in docs/library.md with the packs. RECORD=1 writes them.
func TestDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	old, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no lines %q and %q", document, begin, end)
	}
	want := lists(t)
	if os.Getenv("RECORD") != "" {
		if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("%s is not up to date: run make generate (-want +got):\n%s", document, diff)
	}
}

// lists returns a table of packs, and one of the policies of each.
func lists(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	all := packs(t)
	total := 0
	b.WriteString("\n| pack | version | policies | |\n|---|---|---|---|\n")
	for _, pack := range all {
		total += len(pack.Policies)
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %d | %s |\n", pack.Name, pack.Name, pack.Version, len(pack.Policies), pack.Description)
	}
	fmt.Fprintf(&b, "\nThese are %d policies.\n", total)
	for _, pack := range all {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| policy | severity | |\n|---|---|---|\n", pack.Name, pack.Description)
		for i := range pack.Policies {
			p := &pack.Policies[i]
			fmt.Fprintf(&b, "| [`%s`](../library/%s/%s.yaml) | %s | %s |\n", p.Name, p.Origin, p.File, p.Spec.Severity, row(t, p))
		}
	}
	return b.String()
}

// row returns the last cell of a policy: what it is for, what it does, its params, and pages about it.
func row(t *testing.T, p *library.Policy) string {
	t.Helper()
	cell := strings.Join(strings.Fields(p.Spec.Description), " ")
	if p.Mutates() {
		cell += " Changes objects."
	}
	if len(p.Params) > 0 {
		text, err := yaml.Marshal(p.Params)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for line := range strings.Lines(string(text)) {
			if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
				names = append(names, "`"+name+"`")
			}
		}
		cell += " Params: " + strings.Join(names, ", ") + "."
	}
	for i, link := range p.Spec.Links {
		cell += fmt.Sprintf(" [%d](%s)", i+1, link)
	}
	return strings.ReplaceAll(cell, "|", "\\|")
}
