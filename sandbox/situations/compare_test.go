package situations

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// only names the situations to run.
var only = flag.String("situations", "", "regular expression: names and reasons of the situations to run")

func TestMain(m *testing.M) {
	// The tests wait for most of their time. The flag on the command line still counts.
	_ = flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// doors are where Usher answers, and how: an API server adds to what a webhook says.
var doors = []string{"webhook", "plugin"}

func TestSituations(t *testing.T) {
	t.Parallel()
	binary := usherBinary(t)
	all := situations(t)
	upstream, others := start(t, all, binary)
	t.Run("all", func(t *testing.T) {
		for _, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.compare(t, upstream, others)
			})
		}
	})
	t.Logf("%d situations with %d requests", len(all), requestsOf(all))
}

func situations(t *testing.T) []*situation {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var all []*situation
	for _, path := range files {
		for _, s := range load(t, path) {
			if wanted.MatchString(s.name) || wanted.MatchString(s.Reason) {
				all = append(all, s)
			}
		}
	}
	return all
}

func requestsOf(all []*situation) int {
	n := 0
	for _, s := range all {
		n += len(s.Requests)
	}
	return n
}

// start starts the API servers, and puts the policies into force: in the first one as objects.
func start(t *testing.T, all []*situation, binary string) (upstream *side, others map[string]*side) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	folder := t.TempDir()
	empty := filepath.Join(folder, "plugin")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	upstream = newSide(t, "upstream", "")
	others = map[string]*side{
		"webhook": newSide(t, "webhook", ""),
		"plugin":  newSide(t, "plugin", pluginConfig(t, empty)),
	}
	var group errgroup.Group
	for _, s := range []*side{upstream, others["webhook"], others["plugin"]} {
		group.Go(func() error { return s.prepare(ctx, all) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	policies := append(policiesOf(all), sentinels()...)
	file := filepath.Join(folder, "policies.yaml")
	writeFile(t, file, join(t, policies))
	writeFile(t, filepath.Join(empty, "policies.yaml"), join(t, policies))
	serve(ctx, t, others["webhook"], binary, file)
	if err := upstream.install(ctx, policies); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*side{upstream, others["webhook"], others["plugin"]} {
		if err := s.awaitPolicies(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return upstream, others
}

// pluginConfig has the plugin decide, without a timeout that a busy machine exceeds.
func pluginConfig(t *testing.T, policies string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admission.yaml")
	writeFile(t, path, `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: Usher
  configuration: {apiVersion: apiserver.usher.dev/v1alpha1, kind: UsherConfiguration, policies: [`+policies+`], ruleTimeout: 30s}
`)
	return path
}

func policiesOf(all []*situation) []map[string]any {
	var policies []map[string]any
	for _, s := range all {
		policies = append(policies, s.policies()...)
	}
	return policies
}

func join(t *testing.T, objects []map[string]any) string {
	t.Helper()
	var text strings.Builder
	for _, object := range objects {
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(raw))
	}
	return text.String()
}

// usherBinary is the path of usher.
func usherBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("USHER_BIN")
	if path == "" {
		t.Skip("USHER_BIN is not set: run make e2e, which builds usher")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serve has an usher decide for an API server.
func serve(ctx context.Context, t *testing.T, s *side, binary, policies string) {
	t.Helper()
	if err := usher.Install(ctx, s.RESTConfig, filepath.Join("../..", "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	process, err := usher.Start(usher.Config{
		Binary: binary, Kubeconfig: s.Kubeconfig, Dir: t.TempDir(), Policies: []string{policies}, Args: []string{"--fact-ttl=0", "--rule-timeout=30s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if log, err := os.ReadFile(process.Log); t.Failed() && err == nil {
			t.Logf("end of usher's log:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	if err := process.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// compare makes the requests of a situation to all API servers.
func (s *situation) compare(t *testing.T, upstream *side, others map[string]*side) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	all := map[string][]answer{}
	var mu sync.Mutex
	var group errgroup.Group
	for _, side := range append(slices.Collect(maps.Values(others)), upstream) {
		group.Go(func() error {
			answers, err := s.ask(ctx, side)
			mu.Lock()
			defer mu.Unlock()
			all[side.name] = answers
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", s.Reason, err)
	}
	if text := fmt.Sprint(all[upstream.name]); !strings.Contains(text, s.Shows) || s.Shows == "" {
		t.Errorf("%s: the answers do not show %q:\n%s", s.Reason, s.Shows, text)
	}
	for _, door := range doors {
		same := true
		for i := range s.Requests {
			want, got := expected(all[upstream.name][i], door), told(all[door][i], door)
			diff := cmp.Diff(want, got)
			if diff != "" && s.Differs[door] == "" {
				t.Errorf("%s: request %d, %s: -upstream +%s:\n%s", s.Reason, i, s.Requests[i].Do, door, diff)
			}
			same = same && diff == ""
		}
		if same && s.Differs[door] != "" {
			t.Errorf("%s: the %s answers as upstream: remove differs", s.Reason, door)
		}
	}
}

// ask makes the requests of a situation.
func (s *situation) ask(ctx context.Context, side *side) ([]answer, error) {
	answers := make([]answer, len(s.Requests))
	for i := range s.Requests {
		var err error
		if answers[i], err = side.do(ctx, s.name, &s.Requests[i]); err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// byKubernetes is what an API server puts before a message of its policies.
var byKubernetes = regexp.MustCompile(`(?s)^[a-z0-9.-]+ "[^"]*" is forbidden: (ValidatingAdmissionPolicy '.*)$`)

// byUsher is what it puts before one of Usher.
var byUsher = regexp.MustCompile(`^admission webhook "(validate|mutate)[a-z0-9-]*\.usher\.dev" denied the request: `)

// expected is an answer of an API server with policies, as documented for a door.
func expected(a answer, door string) answer {
	if door == "webhook" {
		a.Body = change(a.Body, func(message string) string { return byKubernetes.ReplaceAllString(message, "$1") })
		audit := map[string]string{}
		for key, value := range a.Audit {
			audit[strings.ReplaceAll(key, "/", "-")] = value
		}
		a.Audit = audit
	}
	return sorted(a)
}

// told is an answer of an API server with Usher, without what documents say that it adds.
func told(a answer, door string) answer {
	a.Body = change(a.Body, func(message string) string { return byUsher.ReplaceAllString(message, "") })
	audit := map[string]string{}
	for key, value := range a.Audit {
		name, rest, ok := strings.Cut(key, "/")
		if ok && strings.HasSuffix(name, ".usher.dev") {
			key = rest
		}
		if !slices.Contains([]string{"denied-by", "failed-by", "changed-by"}, key) {
			audit[key] = value
		}
	}
	a.Audit = audit
	return sorted(a)
}

// sorted puts into order what has none.
func sorted(a answer) answer {
	a.Warnings = slices.Sorted(slices.Values(a.Warnings))
	if len(a.Audit) == 0 {
		a.Audit = nil
	}
	return a
}

// change changes the message of a Status.
func change(body any, message func(string) string) any {
	status, ok := body.(map[string]any)
	if text, isText := status["message"].(string); ok && isText && status["kind"] == "Status" {
		body = with(maps.Clone(status), map[string]any{"message": message(text)})
	}
	return body
}

// awaitPolicies waits until the sentinels decide: the policies that were made before them do, too.
func (s *side) awaitPolicies(ctx context.Context) error {
	for do, until := range map[string]string{"create configmaps": "in force", "create secrets": "in-force"} {
		r := &request{Do: do, Query: "dryRun=All", In: "sentinel", Until: until}
		if _, err := s.do(ctx, "sentinel", r); err != nil {
			return fmt.Errorf("%s: wait for policies: %w", s.name, err)
		}
	}
	return nil
}
