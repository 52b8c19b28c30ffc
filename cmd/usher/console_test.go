package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/cmd/internal/cli"
	page "github.com/usher-dev/usher/cmd/usher/internal/console"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/policytest"
)

// A caller is a browser with the page of usher console.
type caller struct {
	t    *testing.T
	base string
	http.Client
}

// opened runs usher console with more arguments, and opens the address that it prints.
func opened(t *testing.T, args ...string) *caller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- cli.Execute(ctx, newRoot, cli.Streams{In: strings.NewReader(""), Out: write, Err: &stderr}, append([]string{"console", "--no-open", "--port", "0"}, args...))
		write.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != cli.ExitOK {
			t.Errorf("exit status %d: %s", status, stderr.String())
		}
	})
	output := bufio.NewReader(read)
	line, err := output.ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{t: t, Client: http.Client{Jar: jar, Timeout: time.Minute}}
	c.base, _, _ = strings.Cut(strings.TrimSpace(line), "?")
	response, err := c.Get(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Request.URL.RawQuery != "" {
		t.Fatalf("the page is %d at %s", response.StatusCode, response.Request.URL)
	}
	return c
}

// call posts in, or gets if it is nil, and returns the answer. Status is the expected one.
func call[Out any](c *caller, path string, in any, status int) Out {
	c.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			c.t.Fatal(err)
		}
		method, body = http.MethodPost, bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+"api/v1/"+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var out Out
	if response.StatusCode != status {
		c.t.Fatalf("%s: status %d, want %d: %s", path, response.StatusCode, status, text)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		c.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return out
}

// TestConsoleDecidesAsDecide: the page shows for every case what usher decide prints about the same files.
func TestConsoleDecidesAsDecide(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../../examples", "../../docs/kinitiras/testdata", "../../library")
	if err != nil {
		t.Fatal(err)
	}
	c := opened(t, "--ask-http")
	compared := 0
	for i, one := range cases {
		// The library has many cases for each policy.
		if one.Skip != "" || len(one.HTTP)+len(one.Access) > 0 || one.Now != nil || one.Params != nil || one.ValidationActions != nil ||
			one.Request.Options != nil || one.Request.RequestKind != nil || strings.Contains(one.File, "library") && i%40 != 0 {
			continue
		}
		state := stateOf(t, one)
		got := call[page.Decision](c, "decide", state, http.StatusOK)
		want, stderr, status := decided(t, one, state)
		late := strings.Contains(want+got.Text, "took too long") || strings.Contains(stderr+fmt.Sprint(got.Problems), "takes longer than")
		switch {
		case late:
			// The machine has other work to do.
		case status == cli.ExitUnusable:
			if got.Verdict != "failed" {
				t.Errorf("%s %s: verdict %s, and usher decide says %s", one.File, one.Name, got.Verdict, stderr)
			}
		case got.Text != want:
			t.Errorf("%s %s:\n%s", one.File, one.Name, cmp.Diff(want, got.Text))
		case (got.Verdict == "denied") != (status == cli.ExitNegative):
			t.Errorf("%s %s: verdict %s, and usher decide exits with %d", one.File, one.Name, got.Verdict, status)
		default:
			compared++
		}
	}
	if compared < 100 {
		t.Errorf("only %d cases were compared", compared)
	}
}

// stateOf returns the state of a case.
func stateOf(t *testing.T, c *policytest.Case) *console.State {
	t.Helper()
	var policies []byte
	for _, policy := range c.Policies {
		text, err := json.Marshal(policy)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(append(policies, "---\n"...), append(text, '\n')...)
	}
	state, err := page.StateOf(c, string(policies))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// decided runs usher decide on files with the texts of a state.
func decided(t *testing.T, c *policytest.Case, s *console.State) (stdout, stderr string, status int) {
	t.Helper()
	dir := t.TempDir() + string(filepath.Separator)
	subject, args := s.Object, []string{"decide", "-p", dir + "policies.yaml", "--operation", s.Operation, "-n", s.Namespace, "--subresource", s.Subresource, "--resource", s.Resource, "--name", s.Name}
	if s.Operation == "DELETE" {
		subject = s.OldObject
	}
	files := map[string]string{"policies.yaml": s.Policies, "object.yaml": subject}
	if s.Operation == "UPDATE" {
		files["old.yaml"] = s.OldObject
		args = append(args, "--old", dir+"old.yaml")
	}
	if s.Facts != "" {
		files["facts.yaml"] = s.Facts
		args = append(args, "--facts", dir+"facts.yaml")
	}
	for name, text := range files {
		if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if c.Request.User.Name != "" {
		args = append(args, "--as", c.Request.User.Name)
	}
	for _, group := range c.Request.User.Groups {
		args = append(args, "--as-group", group)
	}
	for key, values := range c.Request.User.Extra {
		for _, value := range values {
			args = append(args, "--as-extra", key+"="+value)
		}
	}
	if c.Request.User.UID != "" {
		args = append(args, "--as-uid", c.Request.User.UID)
	}
	if s.DryRun {
		args = append(args, "--dry-run")
	}
	stdout, stderr, status = execute(t, append(args, dir+"object.yaml"))
	return strings.ReplaceAll(stdout, dir, ""), stderr, status
}

const teamPolicy = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: require-team}
spec:
  description: Who owns it.
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  bindings: [{name: all, validationActions: [Deny]}]
  validations:
  - name: team
    expression: "'team' in object.metadata.?labels.orValue({})"
    message: label team is required
`

const teamless = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"

// TestConsoleFromNothing: a policy is written, found wrong, corrected, tried, recorded as a case, tested, shared and asked
// about.
func TestConsoleFromNothing(t *testing.T) {
	t.Parallel()
	c := opened(t)
	wrong := strings.Replace(teamPolicy, "message: label", "mesage: label", 1)
	found := call[page.Diagnostics](c, "diagnose", page.Text{Text: wrong}, http.StatusOK).Diagnostics
	if len(found) == 0 || found[0].Severity != "error" || found[0].Start.Line != 10 || len(found[0].Fixes) != 1 || found[0].Fixes[0].Edits[0].Text != "message" {
		t.Errorf("diagnosed %+v", found)
	}
	if got := call[page.Decision](c, "decide", console.State{Policies: wrong, Object: teamless}, http.StatusOK); got.Verdict != "failed" || len(got.Problems) == 0 || got.Problems[0].Line != 11 {
		t.Errorf("a policy with an error: %+v", got)
	}
	place := map[string]any{"text": teamPolicy + "    rea", "line": 11, "character": 7}
	if got := call[page.Completions](c, "complete", place, http.StatusOK).Items; !slices.ContainsFunc(got, func(i page.Completion) bool { return i.Label == "reason" }) {
		t.Errorf("completed %+v", got)
	}
	if got := call[page.Text](c, "hover", map[string]any{"text": teamPolicy, "line": 9, "character": 6}, http.StatusOK).Text; !strings.Contains(got, "expression") {
		t.Errorf("hover %q", got)
	}
	state := console.State{Policies: teamPolicy, Object: teamless, Operation: "CREATE", User: console.User{Name: "jane"}}
	got := call[page.Decision](c, "decide", state, http.StatusOK)
	if got.Verdict != "denied" || got.Message != "label team is required" || len(got.Findings) != 1 || got.Findings[0].Line != 9 {
		t.Errorf("decided %+v", got)
	}
	if len(got.Trace) != 1 || !slices.ContainsFunc(got.Trace[0].Values, func(v page.TraceValue) bool { return strings.Contains(v.Expression, "orValue") && v.Value == "false" }) || got.Trace[0].Budget < got.Trace[0].Cost {
		t.Errorf("traced %+v", got.Trace)
	}
	recorded := call[page.Text](c, "case", state, http.StatusOK).Text
	tested := call[page.Tested](c, "test", page.Testing{Cases: recorded}, http.StatusOK)
	if tested.Passed != 1 || tested.Failed != 0 {
		t.Errorf("tested %+v of\n%s", tested, recorded)
	}
	weaker := strings.Replace(teamPolicy, "'team' in", "true || 'team' in", 1)
	if tested := call[page.Tested](c, "test", page.Testing{Cases: recorded, Policies: weaker}, http.StatusOK); tested.Failed != 1 {
		t.Errorf("the policy of the page was not tested: %+v", tested)
	}
	tested = call[page.Tested](c, "test", page.Testing{Cases: recorded, Policies: teamPolicy}, http.StatusOK)
	if want := (page.Hits{Policy: "ClusterObjectPolicy require-team", Line: 9, Part: "spec.validations[0]", Hits: 1}); !slices.Contains(tested.Coverage, want) {
		t.Errorf("covered %+v", tested.Coverage)
	}
	if again := call[console.State](c, "open", call[page.Text](c, "share", state, http.StatusOK), http.StatusOK); cmp.Diff(state, again) != "" {
		t.Errorf("shared: %s", cmp.Diff(state, again))
	}
	why := call[page.Reasons](c, "why", page.Question{Message: "Error from server (Forbidden): admission webhook denied the request: " + got.Message + " (ClusterObjectPolicy require-team)", Policies: teamPolicy}, http.StatusOK).Matches
	if unnamed := call[page.Reasons](c, "why", page.Question{Message: got.Message, Policies: teamPolicy}, http.StatusOK).Matches; cmp.Diff(why, unnamed) != "" {
		t.Errorf("without the name of the policy: %+v", unnamed)
	}
	if len(why) != 1 || why[0].Rule != "team" || why[0].Line != 9 || !strings.Contains(why[0].Explain, "Who owns it.") ||
		why[0].Exempt != "# policies.yaml is the policies of the page, refused.yaml is the object that was refused\nusher exempt -p 'policies.yaml' -f refused.yaml --reason WHY --owner WHO" {
		t.Errorf("why: %+v", why)
	}
}

// TestConsoleLibrary: each example is a request that its policy has something to say about, and its cases pass.
func TestConsoleLibrary(t *testing.T) {
	t.Parallel()
	c := opened(t)
	all := call[page.Info](c, "info", nil, http.StatusOK).Examples
	if len(all) < 60 {
		t.Fatalf("%d examples", len(all))
	}
	for i, e := range all {
		if i%30 != 0 {
			continue
		}
		got := call[page.Decision](c, "decide", call[console.State](c, "examples/"+e.Name, nil, http.StatusOK), http.StatusOK)
		if got.Verdict == "allowed" || got.Verdict == "failed" {
			t.Errorf("%s: %s: %s", e.Name, got.Verdict, got.Message)
		}
		if tested := call[page.Tested](c, "test", page.Testing{Example: e.Name}, http.StatusOK); tested.Failed > 0 || tested.Passed == 0 || len(tested.Coverage) == 0 {
			t.Errorf("%s: %+v", e.Name, tested)
		}
	}
	refused := "pods \"a\" is forbidden: create a Deployment (ClusterObjectPolicy bare-pods)"
	if why := call[page.Reasons](c, "why", page.Question{Message: refused}, http.StatusOK).Matches; len(why) == 0 || why[0].File != "library/best-practices/bare-pods.yaml" ||
		!strings.HasPrefix(why[0].Exempt, "# policies.yaml is library/best-practices/bare-pods.yaml, refused.yaml is ") {
		t.Errorf("why: %+v", why)
	}
	call[map[string]string](c, "examples/none", nil, http.StatusNotFound)
	call[map[string]string](c, "why", page.Question{Message: "no"}, http.StatusUnprocessableEntity)
}

// TestConsoleFolder: files of the folder are read, and written only with --write.
func TestConsoleFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"team.yaml":       teamPolicy,
		"cases/team.yaml": "name: none\nphase: validate\npolicyFiles: [../team.yaml]\nrequest: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}}\nexpect: {allowed: false}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	readOnly, c := opened(t, "-p", dir), opened(t, "-p", dir, "--write")
	call[map[string]string](readOnly, "save", page.Saving{Path: "new.yaml", Text: "a"}, http.StatusForbidden)
	info := call[page.Info](c, "info", nil, http.StatusOK)
	if want := []page.File{{Path: "cases/team.yaml", Kind: "cases"}, {Path: "team.yaml", Kind: "policies"}}; cmp.Diff(want, info.Files) != "" || !info.Writable {
		t.Errorf("files: %s", cmp.Diff(want, info.Files))
	}
	if got := call[page.FileText](c, "file?path=team.yaml", nil, http.StatusOK); got.Text != teamPolicy {
		t.Errorf("read %q", got.Text)
	}
	tested := call[page.Tested](c, "test", page.Testing{}, http.StatusOK)
	if tested.Passed != 1 || tested.Suites[0].File != "cases/team.yaml" || !slices.ContainsFunc(tested.Coverage, func(h page.Hits) bool { return h.File == "team.yaml" && h.Hits == 1 && h.Part == "spec.validations[0]" }) {
		t.Errorf("tested %+v", tested)
	}
	call[page.Saved](c, "save", page.Saving{Path: "more/new.yaml", Text: "a: b\n"}, http.StatusOK)
	call[map[string]string](c, "save", page.Saving{Path: "more/new.yaml", Text: "b"}, http.StatusConflict)
	version := call[page.FileText](c, "file?path=more/new.yaml", nil, http.StatusOK).Version
	call[page.Saved](c, "save", page.Saving{Path: "more/new.yaml", Text: "c: d\n", Overwrite: true, Version: version}, http.StatusOK)
	call[map[string]string](c, "save", page.Saving{Path: "more/new.yaml", Text: "e: f\n", Overwrite: true, Version: version}, http.StatusConflict)
	if text, err := manifest.Read(filepath.Join(dir, "more", "new.yaml"), 100); err != nil || string(text) != "c: d\n" {
		t.Errorf("wrote %q: %v", text, err)
	}
}

// TestConsoleAuthorizes: a SubjectAccessReview is answered by authorization policies and roles.
func TestConsoleAuthorizes(t *testing.T) {
	t.Parallel()
	c := opened(t)
	text, err := manifest.Read("../../examples/authorization/policies/hide-db.yaml", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	spec := "user: jane\ngroups: [devs]\nresourceAttributes: {verb: get, resource: secrets, namespace: shop, name: db-root}\n"
	got := call[page.Decision](c, "decide", console.State{Policies: string(text), Authorization: spec}, http.StatusOK)
	if got.Verdict != "denied" || len(got.Trace) == 0 || !strings.Contains(got.Text, "DENIED") {
		t.Errorf("decided %+v", got)
	}
	if got := call[page.Decision](c, "decide", console.State{Policies: string(text), Authorization: "user: [a"}, http.StatusOK); got.Verdict != "failed" {
		t.Errorf("a spec that is none: %+v", got)
	}
}

// TestConsoleImports: pasted policies of other engines are converted.
func TestConsoleImports(t *testing.T) {
	t.Parallel()
	c := opened(t)
	const policy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: team}
spec:
  validationFailureAction: Enforce
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: label team is required, pattern: {metadata: {labels: {team: "?*"}}}}
`
	got := call[page.Imported](c, "import", page.Text{Text: policy}, http.StatusOK)
	if got.Engine != "Kyverno" || !strings.Contains(got.Report, "1 converted") || !strings.Contains(got.Policies, "kind: ClusterObjectPolicy") {
		t.Errorf("imported %+v", got)
	}
	call[map[string]string](c, "import", page.Text{Text: teamPolicy}, http.StatusUnprocessableEntity)
}

// TestConsoleSurvives: what nobody sensible sends is answered in seconds, and so is the next request.
func TestConsoleSurvives(t *testing.T) {
	t.Parallel()
	c := opened(t)
	anchors := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		anchors += string(rune('b'+i)) + ": &" + string(rune('b'+i)) + " [" + strings.Repeat("*"+string(rune('a'+i))+",", 9) + "]\n"
	}
	slow := strings.Replace(teamPolicy, "'team' in object.metadata.?labels.orValue({})", "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, [1,2,3,4,5,6,7,8,9].all(g, a+b+c+d+e+f+g > 0)))))))", 1)
	cue := "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterValidatePolicy\nmetadata: {name: a}\nspec:\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n  validateRules:\n  - targetOperations: [CREATE]\n    cue: |\n      l: [for a in [1,2,3,4,5,6,7,8,9], for b in [1,2,3,4,5,6,7,8,9], for c in [1,2,3,4,5,6,7,8,9], for d in [1,2,3,4,5,6,7,8,9], for e in [1,2,3,4,5,6,7,8,9], for f in [1,2,3,4,5,6,7,8,9], for g in [1,2,3,4,5,6,7,8,9] {a*b*c*d*e*f*g}]\n      validate: valid: len(l) > 3\n"
	for name, text := range map[string]string{
		"deep": strings.Repeat("[", 100_000), "deeper": strings.Repeat("{a: ", 50_000), "anchors": anchors, "control": "\x00\x1b[31m\u202e", "slow": slow, "cue": cue,
		"regex": strings.Replace(teamPolicy, "'team' in object.metadata.?labels.orValue({})", "object.metadata.name.matches('(a*){1000}')", 1),
	} {
		for _, state := range []console.State{{Policies: text, Object: teamless}, {Policies: teamPolicy, Object: text}, {Policies: teamPolicy, Object: teamless, Facts: text}, {Policies: teamPolicy, Authorization: text}} {
			start := time.Now()
			got := call[page.Decision](c, "decide", state, http.StatusOK)
			t.Logf("%s: %s in %s: %.100s", name, got.Verdict, time.Since(start).Round(time.Millisecond), got.Message)
		}
		call[page.Diagnostics](c, "diagnose", page.Text{Text: text}, http.StatusOK)
		call[page.Completions](c, "complete", map[string]any{"text": text, "line": 1 << 40, "character": 9}, http.StatusOK)
	}
	if got := call[page.Decision](c, "decide", console.State{Policies: teamPolicy, Object: teamless}, http.StatusOK); got.Verdict != "denied" {
		t.Errorf("afterwards: %+v", got)
	}
}
