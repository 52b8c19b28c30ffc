package defaulted_test

import (
	"flag"
	"os"
	"testing"

	"github.com/usher-dev/usher/sandbox/internal/defaulted"
)

var update = flag.Bool("update", false, "write the objects")

// TestObjects: the objects that policies are tried on are those of this version of Kubernetes.
func TestObjects(t *testing.T) {
	t.Parallel()
	const file = "../../../internal/trial/minimal.jsonl"
	seeds, err := os.ReadFile("../../../internal/trial/seeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := defaulted.Objects(seeds)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the API server makes of seeds.yaml: run make trial-objects", file)
	}
}
