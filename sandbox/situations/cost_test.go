package situations

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// podsEach is how many pods are created for a figure.
var podsEach = flag.Int("cost", 0, "measure what policies cost, with so many pods for each figure, in each of three rounds")

// A metered way to enforce policies takes CPU time of processes.
type metered struct {
	side *side
	// names and pids are those of the processes.
	names []string
	pids  []int
	// enforce puts policies into force.
	enforce func(ctx context.Context, policies []map[string]any) error
}

// TestCost measures the CPU time that validating policies add to the creation of a pod: in an API
// server that has them, in one that calls Usher and in that usher, and in one with Usher inside.
func TestCost(t *testing.T) {
	t.Parallel()
	if *podsEach == 0 {
		t.Skip("it measures, for minutes: run make bench-cluster")
	}
	ctx := t.Context()
	for _, m := range meteredWays(ctx, t) {
		var base []time.Duration
		for _, n := range []int{0, 1, 10, 100} {
			if err := m.enforce(ctx, costing(n)); err != nil {
				t.Fatal(err)
			}
			if err := awaitCosting(ctx, m.side, n); err != nil {
				t.Fatal(err)
			}
			if err := m.settle(ctx); err != nil {
				t.Fatal(err)
			}
			each, err := m.measure(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				base = each
			}
			for i, name := range m.names {
				t.Logf("%-22s %3d policies: %6.2f ms a pod, %6.2f more than with none", name, n, milliseconds(each[i]), milliseconds(each[i]-base[i]))
			}
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func meteredWays(ctx context.Context, t *testing.T) []*metered {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{}
	for _, name := range doors {
		dir := filepath.Join(folder, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		files[name] = filepath.Join(dir, "policies.yaml")
	}
	write := func(name string) func(context.Context, []map[string]any) error {
		return func(_ context.Context, policies []map[string]any) error {
			writeFile(t, files[name], join(t, policies))
			return nil
		}
	}
	upstream, hooked := newSide(t, "upstream", ""), newSide(t, "webhook", "")
	inside := newSide(t, "plugin", pluginConfig(t, filepath.Dir(files["plugin"])))
	for _, s := range []*side{upstream, hooked, inside} {
		if err := s.discover(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := usher.Install(ctx, hooked.RESTConfig, filepath.Join("../..", "deploy", "crds")); err != nil {
		t.Fatal(err)
	}
	process, err := usher.Start(usher.Config{
		Binary: usherBinary(t), Kubeconfig: hooked.Kubeconfig, Dir: t.TempDir(), Policies: []string{filepath.Dir(files["webhook"])},
		Args: []string{"--log-level=warn"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	if err := process.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	installed := 0
	install := func(ctx context.Context, policies []map[string]any) error {
		added := policies[installed:]
		installed = len(policies)
		return upstream.install(ctx, added)
	}
	return []*metered{
		{upstream, []string{"API server's policies"}, []int{upstream.PID}, install},
		{hooked, []string{"webhook: API server", "webhook: usher"}, []int{hooked.PID, process.PID}, write("webhook")},
		{inside, []string{"plugin"}, []int{inside.PID}, write("plugin")},
	}
}

// costing are validating policies of five expressions for pods, with their bindings.
func costing(n int) []map[string]any {
	var all []map[string]any
	for i := range n {
		name := fmt.Sprintf("cost-%03d", i)
		s := &situation{name: name, Policy: map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"pods"},
			}}},
			"validations": []any{
				map[string]any{"expression": fmt.Sprintf("object.metadata.name != 'cost-%03d'", i)},
				map[string]any{"expression": "object.spec.containers.all(c, c.image != 'bad')"},
				map[string]any{"expression": "!object.spec.?hostNetwork.orValue(false)"},
				map[string]any{"expression": "object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged))"},
				map[string]any{"expression": "object.spec.terminationGracePeriodSeconds <= 60", "message": "at most a minute"},
			},
		}, Binding: map[string]any{"matchResources": map[string]any{"namespaceSelector": map[string]any{}}}}
		all = append(all, s.policies()...)
	}
	return all
}

func costPod(name string) *request {
	return &request{Do: "create pods/" + name, Query: "dryRun=All", With: map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "registry.example/app:1.2.3"}, map[string]any{"name": "d", "image": "registry.example/side:1"}},
	}}}
}

// awaitCosting waits until the last of the policies decides.
func awaitCosting(ctx context.Context, s *side, n int) error {
	if n == 0 {
		return nil
	}
	r := costPod(fmt.Sprintf("cost-%03d", n-1))
	r.Until = fmt.Sprintf("ValidatingAdmissionPolicy 'cost-%03d'", n-1)
	_, err := s.do(ctx, "default", r)
	return err
}

// settle waits until the processes have little to do: policies are compiled and tried when they change.
func (m *metered) settle(ctx context.Context) error {
	const step, idle = time.Second, 150 * time.Millisecond
	for range 120 {
		before, err := m.used()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
		}
		after, err := m.used()
		if err != nil {
			return err
		}
		busy := time.Duration(0)
		for i := range after {
			busy = max(busy, after[i]-before[i])
		}
		if busy < idle {
			return nil
		}
	}
	return errors.New("the processes are still busy after two minutes")
}

// measure returns the CPU time of each process for a pod: the least of three rounds.
func (m *metered) measure(ctx context.Context) ([]time.Duration, error) {
	least := make([]time.Duration, len(m.pids))
	for round := range 3 {
		before, err := m.used()
		if err != nil {
			return nil, err
		}
		for i := range *podsEach {
			a, err := m.side.do(ctx, "default", costPod(fmt.Sprintf("pod-%d", i)))
			if err == nil && a.Code != http.StatusCreated {
				err = errors.New(a.String())
			}
			if err != nil {
				return nil, err
			}
		}
		after, err := m.used()
		if err != nil {
			return nil, err
		}
		for i := range least {
			each := (after[i] - before[i]) / time.Duration(*podsEach)
			if round == 0 || each < least[i] {
				least[i] = each
			}
		}
	}
	return least, nil
}

// used returns the CPU time that the processes have used.
func (m *metered) used() ([]time.Duration, error) {
	all := make([]time.Duration, len(m.pids))
	for i, pid := range m.pids {
		var err error
		if all[i], err = cpuTime(pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cpuTime returns the CPU time that a process has used, as in proc(5), in ticks of a hundredth of a
// second.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read CPU time of process %d: %q", pid, text)
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(errUser, errSystem)
}
