package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A question is a request of Usher to the API server.
type question struct {
	verb  string
	query url.Values
}

// questions are those that Usher asked about a resource, in order.
func (r *auditRig) questions(t *testing.T, resource string) []question {
	t.Helper()
	file, err := os.Open(r.log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []question
	seen := map[string]bool{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all
		}
		var event struct {
			AuditID, Verb, RequestURI string
			ImpersonatedUser          struct{ Username string }
			ObjectRef                 struct{ Resource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.ImpersonatedUser.Username != auditor || event.ObjectRef.Resource != resource || seen[event.AuditID] {
			continue
		}
		seen[event.AuditID] = true
		uri, err := url.ParseRequestURI(event.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, question{event.Verb, uri.Query()})
	}
}

// fullReads are the questions that begin to read all objects.
func fullReads(all []question) int {
	n := 0
	for _, q := range all {
		if q.verb == "list" && q.query.Get("continue") == "" || q.query.Get("sendInitialEvents") != "" {
			n++
		}
	}
	return n
}

// expired waits until Usher has resumed its watch of pods where the API server no longer can: it has
// read all objects again since, and its results are those of a full scan.
func (r *auditRig) expired(t *testing.T, before []question) {
	t.Helper()
	eventually(t, "all pods are read once more", func() error {
		after := r.questions(t, "pods")[len(before):]
		if n := fullReads(after); n == 0 {
			return fmt.Errorf("there is none in %v", after)
		}
		return nil
	})
	after := r.questions(t, "pods")[len(before):]
	i := slices.IndexFunc(after, func(q question) bool { return q.query.Get("resourceVersion") != "" })
	if i < 0 || fullReads(after[:i+1]) > 0 {
		t.Fatalf("the watch was not resumed before all was read once more: %v", after)
	}
	// This is what Usher was told.
	version := after[i].query.Get("resourceVersion")
	events, err := r.kube.CoreV1().Pods("").Watch(testContext(t), metav1.ListOptions{ResourceVersion: version})
	if err == nil {
		defer events.Stop()
		first := <-events.ResultChan()
		if first.Type != watch.Error {
			t.Fatalf("a watch from version %s has the event %s", version, first.Type)
		}
		err = apierrors.FromObject(first.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Fatalf("a watch from version %s: %v, want 410", version, err)
	}
	r.sameAsScan(t)
}

// sameAsScan compares the results of Usher with those of a scan of the cluster.
func (r *auditRig) sameAsScan(t *testing.T) {
	t.Helper()
	type object struct{ Kind, Namespace, Name, UID string }
	type said struct {
		Object                object
		Policy                struct{ Name string }
		Rule, Status, Message string
	}
	parsed := func(text []byte) (results []said, summary map[string]int) {
		var report struct {
			Results []said
			Summary map[string]int
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return report.Results, report.Summary
	}
	scan, stderr, code := r.audit(t, r.Kubeconfig, "-o", "json", "--fail-on", "none")
	if code != 0 {
		t.Fatalf("the scan: exit status %d: %s", code, stderr)
	}
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	want, wantCounts := parsed([]byte(scan))
	if len(want) == 0 {
		t.Fatal("the scan has no results")
	}
	eventually(t, "the results of a full scan", func() error {
		command := exec.CommandContext(testContext(t), binary, "audit", "--kubeconfig", r.Kubeconfig, "--server", "https://"+r.apis[r.replicas[0]], "--ca-file", r.replicas[0].CAFile(), "-o", "json", "--fail-on", "none")
		text, err := command.Output()
		if err != nil {
			return err
		}
		got, gotCounts := parsed(text)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("results (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantCounts, gotCounts); diff != "" {
			return fmt.Errorf("counts (-want +got):\n%s", diff)
		}
		return nil
	})
}

// compact has etcd forget all versions before the current one.
func (r *auditRig) compact(t *testing.T) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Etcd}, DialTimeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	current, err := client.Get(testContext(t), "/registry/pods/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(testContext(t), current.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}
