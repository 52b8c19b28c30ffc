package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

// The same for people, as usher explain prints it.
func ExampleLive_ExplainText() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	decider, err := follow(ctx, folder, "at most 3 replicas")
	if err != nil {
		fmt.Println(err)
		return
	}
	request := deployment()
	decision, err := decider.Decide(ctx, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := decider.ExplainText(ctx, request, decision)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(regexp.MustCompile(`(?m)^ *took .*\n`).ReplaceAllString(text, "")) // the time differs
	// Output:
	// validate: deny: at most 3 replicas
	//     rejected  ClusterObjectPolicy few-replicas spec.validations: at most 3 replicas
	//       matched by CREATE of apps/v1 deployments
	//       cel: Deny
	//         validations[0]: object.spec.replicas <= 3 → false
	//           object.spec.replicas → 5
	//       spec.validations[0]: at most 3 replicas
}

// TestExplainTextOfOthers has a message that would clear a terminal, and one that is like a line of the report.
func TestExplainTextOfOthers(t *testing.T) {
	t.Parallel()
	decider, err := follow(t.Context(), t.TempDir(), `"\e[2Jgone\n  validate: allow"`)
	if err != nil {
		t.Fatal(err)
	}
	request := deployment()
	decision, err := decider.Decide(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := decider.ExplainText(t.Context(), request, decision)
	if err != nil || strings.Contains(text, "\x1b") || strings.Contains(text, "\n  validate: allow") || !strings.Contains(text, "gone") {
		t.Errorf("explained as %q, error %v", text, err)
	}
	other := deployment()
	other.Object = usher.RawObject([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2}}`))
	allowed, err := decider.Decide(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	for reason, d := range map[string]usher.Decision{"none": {}, "of another request": allowed, "without findings": usher.Denied("no")} {
		if text, err := decider.ExplainText(t.Context(), request, d); err == nil || !strings.Contains(err.Error(), "it is of another request") {
			t.Errorf("a decision that is %s: explained as %q, error %v", reason, text, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if text, err := decider.ExplainText(ended, request, decision); !errors.Is(err, context.Canceled) {
		t.Errorf("the context is done: explained as %q, error %v", text, err)
	}
	// admission.Decide has no request of the phase Validate after a denial.
	if _, err := decider.ExplainText(t.Context(), nil, usher.Decision{}); err == nil {
		t.Error("no request is explained")
	}
}

// follow returns a decider with a policy about replicas that has a message.
func follow(ctx context.Context, folder, message string) (*live.Live, error) {
	return enforce(ctx, folder, `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: few-replicas}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]},
		validations: [{expression: object.spec.replicas <= 3, message: `+message+`}]}}`)
}

// enforce returns a decider with the policies in a text.
func enforce(ctx context.Context, folder, policies string) (*live.Live, error) {
	if err := os.WriteFile(filepath.Join(folder, "policies.yaml"), []byte(policies), 0o600); err != nil {
		return nil, err
	}
	decider := live.New(live.Options{InProcess: true})
	go func() { _ = decider.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	return decider, decider.WaitLoaded(ctx)
}

func deployment() *usher.Request {
	return &usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: "shop", Name: "web",
		Kind:     schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Object:   usher.RawObject([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":5}}`)),
	}
}
