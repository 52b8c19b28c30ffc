package deploy_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/memory"
	"github.com/usher-dev/usher/internal/observe/recent"
)

const (
	// mostWorkers is how many workers cue.workers=0 means at most, and one more compiles policies.
	mostWorkers = 4 + 1
	// idleWorker is what a worker uses at startup, in MiB.
	idleWorker = 15
)

// TestMemory: what takes memory adds up to less than the limit of the container, and docs/install.md
// says so.
func TestMemory(t *testing.T) {
	text, err := os.ReadFile("helm/usher/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		GoMemLimit string
		Audit      struct{ Memory string }
		CUE        struct {
			Workers      int
			WorkerMemory string
		}
		Resources struct{ Limits struct{ Memory string } }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	mebibytes := func(quantity string) int64 {
		q, err := resource.ParseQuantity(strings.TrimSuffix(quantity, "B"))
		if err != nil {
			t.Fatalf("%s: %v", quantity, err)
		}
		return q.Value() >> 20
	}
	runtime, audit, limit := mebibytes(values.GoMemLimit), mebibytes(values.Audit.Memory), mebibytes(values.Resources.Limits.Memory)
	before := debug.SetMemoryLimit(runtime << 20)
	reviews := memory.Budget() >> 20
	debug.SetMemoryLimit(before)
	decisions := int64(recent.MaxBytes) >> 20
	rest, outside := runtime-reviews-decisions-audit, (runtime+9)/10
	workers := mostWorkers * (mebibytes(values.CUE.WorkerMemory) + idleWorker)
	sum := runtime + outside + workers
	if values.CUE.Workers != 0 || rest < runtime/3 || sum > limit {
		t.Errorf("%d MiB of %d are left for policies and objects; all takes %d MiB of %d", rest, runtime, sum, limit)
	}
	want := fmt.Sprintf(`| memory | MiB | by |
|---|---|---|
| the Go runtime of the server | %d | `+"`goMemLimit`"+` |
| · of it, reviews that are read and decided | %d | a quarter of `+"`goMemLimit`"+` |
| · of it, the last decisions | %d | fixed, with `+"`api.enabled`"+` |
| · of it, the audit | %d | `+"`audit.memory`"+`, with `+"`audit.enabled`"+` |
| · of it, policies, copies of objects, garbage | %d | the rest |
| what Go does not count | %d | a tenth of `+"`goMemLimit`"+` |
| CUE workers | %d | %d × (`+"`cue.workerMemory`"+` + %d) |
| all | %d | |
| limit of the container | %d | `+"`resources.limits.memory`"+` |
`, runtime, reviews, decisions, audit, rest, outside, workers, mostWorkers, idleWorker, sum, limit)
	documented, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(documented), want) {
		t.Errorf("docs/install.md does not have this table:\n%s", want)
	}
}
