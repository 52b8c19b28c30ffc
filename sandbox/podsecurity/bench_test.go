package podsecurity

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"
)

// BenchmarkRestricted decides a pod of 5 KB that all policies of the pack allow.
func BenchmarkRestricted(b *testing.B) {
	written, err := os.ReadFile(filepath.Join("testdata", "pod.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(written, pod); err != nil {
		b.Fatal(err)
	}
	d, r := enforced(b, psaapi.LevelRestricted, "latest"), create(b, pod)
	if _, err := r.Object.Tree(); err != nil {
		b.Fatal(err)
	}
	if all, err := said(b.Context(), d, r); err != nil || len(all) > 0 {
		b.Fatalf("the pod is not allowed: %q, %v", all, err)
	}
	b.ReportAllocs()
	start, n := cpuTime(b), 0
	for b.Loop() {
		if _, err := d.Decide(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		n++
	}
	// On a busy machine, elapsed time is that of others, too.
	b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/op")
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
