package try

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
)

// caseOutput is the output that is a file of cases for usher test.
const caseOutput = "case"

// caseHeader is what the author of cases has to know first.
const (
	caseHeader = "# Recorded by 'usher decide': keep what the policies are for. The names in policyFiles\n# are relative to "
	ofFolder   = "the folder in which the command ran: save this file there, or adapt them.\n"
	ofFile     = "this file: adapt them if you move it.\n"
)

func (f *decideFlags) validateCase() error {
	if f.output.Value == caseOutput && (f.fromCluster || f.server != "" || slices.Contains(f.policies, "-")) {
		return errors.New("-o case is for policies of files, which a case names: name them with -p")
	}
	return nil
}

// printCases writes the decisions as cases, one for each phase in which a rule matched. They name the files of the
// policies.
func (f *decideFlags) printCases(w io.Writer, report *decideReport) error {
	header, folder := caseHeader+ofFile, folderOf(w)
	if folder == "" {
		// Without a working directory, names stay as they are.
		folder, _ = os.Getwd()
		header = caseHeader + ofFolder
	}
	return f.writeCases(w, report, header, func(c *policytest.Case) { c.PolicyFiles = f.policyFiles(folder) })
}

// writeCases writes the decisions as cases, to which give gives the policies.
func (f *decideFlags) writeCases(w io.Writer, report *decideReport, header string, give func(*policytest.Case)) error {
	facts, err := f.facts.Objects()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(header)
	written := 0
	for i := range report.Decisions {
		cases, err := report.Decisions[i].cases()
		if err != nil {
			return fmt.Errorf("%s: %w", report.Decisions[i].File, err)
		}
		for _, c := range cases {
			give(c)
			c.Objects = slices.Concat(report.Decisions[i].read, facts)
			text, err := printable.YAML(c)
			if err != nil {
				return fmt.Errorf("encode case: %w", err)
			}
			if written++; written > 1 {
				b.WriteString("---\n")
			}
			b.Write(text)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// folderOf returns the folder of the file that is written; empty if it is no file, or not known.
func folderOf(w io.Writer) string {
	file := cli.FileOf(w)
	if file == nil {
		return ""
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	// Where there is such a link, it names the file to which a shell has redirected the output.
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil || !filepath.IsAbs(name) {
		return ""
	}
	return filepath.Dir(name)
}

// policyFiles are the files that the policies are in, by names that are relative to a folder.
func (f *decideFlags) policyFiles(folder string) []string {
	var files []string
	compiled := f.set.Compiled()
	for i := range compiled {
		files = append(files, filepath.ToSlash(relative(folder, compiled[i].Policy.Position("").File)))
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// relative returns the name of a file from a folder, without symbolic links on the way; the name as it is if there is none.
func relative(folder, file string) string {
	at, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	name, err := filepath.Rel(folder, at)
	if err != nil {
		return file
	}
	return name
}

// cases returns a case for each phase in which a rule of a policy matched; if none did, one that
// expects just that.
func (j *Judgement) cases() ([]*policytest.Case, error) {
	var all []*policytest.Case
	for i := range j.asked {
		phase := j.asked[i].request.Phase
		matched := slices.ContainsFunc(j.Rules, func(r ruleResult) bool { return r.Phase == phase && r.Policy != (usher.PolicyRef{}) })
		denied := j.asked[i].decision.Verdict == usher.Deny
		if !matched && !denied && (i+1 < len(j.asked) || len(all) > 0) {
			continue
		}
		c, err := caseOf(&j.asked[i], matched)
		if err != nil {
			return nil, err
		}
		if phase == usher.Mutate && len(j.asked[i].decision.Patch) > 0 {
			c.Expect.PatchedObject = j.Result
		}
		all = append(all, c)
	}
	return all, nil
}

// caseOf returns the case of a request to one phase. Matched says that there are rules for it.
func caseOf(a *asked, matched bool) (*policytest.Case, error) {
	r, d := a.request, &a.decision
	request, err := policytest.RequestOf(r)
	if err != nil {
		return nil, err
	}
	allowed := d.Verdict != usher.Deny
	e := &policytest.Expect{Allowed: &allowed, NoMatch: !matched && allowed, Warnings: d.Warnings, Causes: policytest.Causes(*d)}
	word := "allowed"
	switch {
	case !allowed:
		word = "denied"
		message := cmp.Or(d.Message, d.Reason)
		e.MessageEquals = &message
		if d.Code != 0 {
			e.Code = &d.Code
		}
	case len(d.Patch) > 0:
		word = "changed"
	case len(d.Warnings) > 0:
		word = "warned"
	}
	c := &policytest.Case{Name: oneLine(strings.ToLower(r.Kind.Kind + "-" + cmp.Or(request.Name, nameOfRequest(r)) + "-" + word)), Phase: r.Phase, Request: *request}
	c.Expect = e
	return c, nil
}

// nameOfRequest returns the name of the object of a request.
func nameOfRequest(r *usher.Request) string {
	object, err := r.Target().Tree()
	if err != nil {
		return r.Name
	}
	return strings.TrimSuffix(result.ToBe(object).Name, "*")
}
