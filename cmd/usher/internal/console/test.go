package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/source/dir"
)

// A Testing says which cases to run: those of the folder, of an example or of a text.
type Testing struct {
	Example string `json:"example,omitempty"`
	// Policies replace those with their names.
	Policies string `json:"policies,omitempty"`
	Cases    string `json:"cases,omitempty"`
	// File and CasesFile are the files of the folder that policies and cases were read from, if they were. Cases name files
	// relative to theirs.
	File      string `json:"file,omitempty"`
	CasesFile string `json:"casesFile,omitempty"`
}

// Tested are the results of cases.
type Tested struct {
	Suites   []Suite `json:"suites"`
	Coverage []Hits  `json:"coverage"`
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Skipped  int     `json:"skipped"`
}

// A Suite is the cases of a file.
type Suite struct {
	File  string `json:"file"`
	Cases []Case `json:"cases"`
}

// A Case is the result of one case.
type Case struct {
	Name    string `json:"name"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped,omitempty"`
	Message string `json:"message"`
}

// Hits are in how many cases a part of a policy had something to say.
type Hits struct {
	Policy string `json:"policy"`
	// File is empty for the policies of the page, and Line begins with 1.
	File string `json:"file"`
	Line int    `json:"line"`
	Part string `json:"part"`
	Hits int    `json:"hits"`
}

// longestTest limits the time of all cases together.
const longestTest = time.Minute

func (b *bench) test(ctx context.Context, in *Testing) (*Tested, error) {
	ctx, cancel := context.WithTimeout(ctx, longestTest)
	defer cancel()
	tests, located, err := b.cases(in)
	if err != nil {
		return nil, err
	}
	inFolder := b.folder != nil && in.Example == "" && strings.TrimSpace(in.Cases) == ""
	result := &Tested{Suites: []Suite{}, Coverage: []Hits{}}
	c := newCoverage(located)
	for _, t := range tests {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("run cases: %w", cmp.Or(context.Cause(ctx), ctx.Err()))
		}
		report := t.Run(ctx)
		if inFolder {
			report.File = b.relative(report.File)
		} else {
			report.File = path.Base(report.File)
		}
		result.add(report)
		if one, ok := t.Admission(); ok && one.Skip == "" {
			c.note(ctx, one)
		}
	}
	result.Coverage = append(result.Coverage, c.hits()...)
	return result, nil
}

func (t *Tested) add(r policytest.Report) {
	i := slices.IndexFunc(t.Suites, func(s Suite) bool { return s.File == r.File })
	if i < 0 {
		t.Suites, i = append(t.Suites, Suite{r.File, []Case{}}), len(t.Suites)
	}
	t.Suites[i].Cases = append(t.Suites[i].Cases, Case{r.Name, r.Status == policytest.Passed, r.Status == policytest.Skipped, r.Message})
	switch r.Status {
	case policytest.Passed:
		t.Passed++
	case policytest.Failed:
		t.Failed++
	case policytest.Skipped:
		t.Skipped++
	}
}

// cases returns the cases to run, and the policies that they are about with their places.
func (b *bench) cases(in *Testing) ([]policytest.Test, []api.Policy, error) {
	var tests []policytest.Test
	var located []api.Policy
	var err error
	switch {
	case strings.TrimSpace(in.Cases) != "":
		tests, err = policytest.Parse(cmp.Or(in.CasesFile, "cases/cases.yaml"), []byte(in.Cases), func(name string) ([]byte, error) { return b.named(in, name) })
	case in.Example != "":
		p, failed := policyOf(in.Example)
		if failed != nil {
			return nil, nil, failed
		}
		tests, err = casesOf(p)
		located = dir.Parse("", p.Text).Policies
	case b.folder != nil:
		tests, located, err = b.folderCases()
	default:
		err = errors.New("there are no cases: choose an example, write one, or open a folder with -p")
	}
	if err != nil {
		return nil, nil, err
	}
	limits, err := b.limits.Limits()
	if err != nil {
		return nil, nil, err
	}
	for i := range tests {
		tests[i] = tests[i].WithLimits(limits).WithRoles(try.Roles).WithTimeout(b.limits.Timeout())
	}
	if strings.TrimSpace(in.Policies) == "" {
		return tests, located, nil
	}
	trees, err := object.Decode([]byte(in.Policies))
	if err != nil {
		return nil, nil, fmt.Errorf("policies: %w", err)
	}
	return testsWith(tests, trees), dir.Parse("", []byte(in.Policies)).Policies, nil
}

// named returns a file that cases name: the policies of the page, if they are from there, or else a file of the folder.
// Without a folder, and for what it does not have, the policies of the page are meant.
func (b *bench) named(in *Testing, name string) ([]byte, error) {
	ends := func(file string) bool {
		return file != "" && ("/"+name == "/"+file || strings.HasSuffix("/"+name, "/"+file))
	}
	onPage := strings.TrimSpace(in.Policies) != ""
	if onPage && ends(in.File) {
		return []byte(in.Policies), nil
	}
	if b.folder != nil {
		files, err := b.folder.Files()
		if err != nil {
			return nil, err
		}
		// The folder may be a part of the one that cases name files of: the file with the longest name is meant.
		found := ""
		for _, file := range files {
			if ends(file) && len(file) > len(found) {
				found = file
			}
		}
		if found != "" {
			text, err := b.folder.Read(found)
			return []byte(text), err
		}
	}
	if onPage && in.File == "" {
		return []byte(in.Policies), nil
	}
	return nil, fmt.Errorf("policyFiles: %s is not on the page nor in the folder: open it as the policies, or name the folder that has it with -p", name)
}

// testsWith returns the tests that are about policies, with these.
func testsWith(tests []policytest.Test, trees []map[string]any) []policytest.Test {
	var all []policytest.Test
	for _, t := range tests {
		c, ok := t.Admission()
		if !ok {
			all = append(all, t)
			continue
		}
		if changed, about := c.With(trees); about {
			all = append(all, changed.Test())
		}
	}
	return all
}

// folderCases returns the cases of the folder, and its policies.
func (b *bench) folderCases() ([]policytest.Test, []api.Policy, error) {
	tests, err := policytest.Tests(b.folder.Path())
	if err != nil {
		return nil, nil, err
	}
	set, err := dir.Load(b.folder.Path())
	if err != nil {
		return nil, nil, err
	}
	for i := range set.Policies {
		locate := set.Policies[i].Locate
		set.Policies[i].Locate = func(field string, line, column int) api.Position {
			at := locate(field, line, column)
			at.File = b.relative(at.File)
			return at
		}
	}
	return tests, set.Policies, nil
}

// relative returns the name of a file in the folder.
func (b *bench) relative(file string) string {
	if name, err := filepath.Rel(b.folder.Path(), file); err == nil {
		return filepath.ToSlash(name)
	}
	return file
}

// A coverage counts in how many cases parts of policies had something to say.
type coverage struct {
	order   []usher.PolicyRef
	located map[usher.PolicyRef]*api.Policy
	counts  map[usher.PolicyRef]map[string]int
}

func newCoverage(located []api.Policy) *coverage {
	c := &coverage{located: map[usher.PolicyRef]*api.Policy{}, counts: map[usher.PolicyRef]map[string]int{}}
	for i := range located {
		ref := compile.Ref(located[i].Object)
		c.order = append(c.order, ref)
		c.located[ref], c.counts[ref] = &located[i], map[string]int{}
	}
	return c
}

// note counts a case.
func (c *coverage) note(ctx context.Context, one *policytest.Case) {
	decision, err := one.Decide(ctx)
	if err != nil {
		return
	}
	spoke := map[usher.PolicyRef]map[string]bool{}
	note := func(ref usher.PolicyRef, part string) {
		if spoke[ref] == nil {
			spoke[ref] = map[string]bool{}
		}
		spoke[ref][part] = true
	}
	for i := range decision.Findings {
		f := &decision.Findings[i]
		if f.Outcome == usher.Skipped {
			continue
		}
		note(f.Policy, "metadata.name")
		for _, check := range f.Checks {
			note(f.Policy, check.Name)
		}
		if f.Outcome == usher.Changed || f.Outcome == usher.Rejected && len(f.Checks) == 0 {
			note(f.Policy, f.Rule)
			note(f.Policy, "spec.mutations")
		}
	}
	for ref, parts := range spoke {
		for part := range parts {
			if c.counts[ref] != nil {
				c.counts[ref][part]++
			}
		}
	}
}

// listed are the fields of policies whose items have something to say.
var listed = []string{"validations", "mutations", "validateRules", "overrideRules"}

// hits returns the counts of each policy and of its parts, in the order of their places.
func (c *coverage) hits() []Hits {
	var all []Hits
	for _, ref := range c.order {
		policy, counts := c.located[ref], c.counts[ref]
		add := func(part string, n int) {
			if at := policy.Position(part); at.Line > 0 {
				all = append(all, Hits{ref.String(), at.File, at.Line, part, n})
			}
		}
		add("metadata.name", counts["metadata.name"])
		tree, err := treeOf(policy)
		if err != nil {
			continue
		}
		spec, _ := tree["spec"].(map[string]any)
		for _, field := range listed {
			items, _ := spec[field].([]any)
			for i := range items {
				part := fmt.Sprintf("spec.%s[%d]", field, i)
				n := counts[part]
				if field == "mutations" {
					n = max(n, counts["spec.mutations"])
				}
				add(part, n)
			}
		}
	}
	return all
}
