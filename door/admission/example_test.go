package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
)

// A mutating webhook: pods get an annotation, and a map for it if they have none. The
// complete program is in examples/sdk/annotate.
func ExampleMutate() {
	const key, value = "example.com/greeting", "hello"
	annotate := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		var pod corev1.Pod
		if err := r.Object.Into(&pod); err != nil {
			return usher.Decision{}, err
		}
		if len(pod.Annotations) == 0 {
			return usher.Patched(usher.PatchOp{Op: "add", Path: "/metadata/annotations", Value: map[string]any{key: value}}), nil
		}
		return usher.Patched(usher.PatchOp{Op: "add", Path: usher.Pointer("metadata", "annotations", key), Value: value}), nil
	})

	mux := http.NewServeMux()
	mux.Handle("/mutate", admission.Mutate(annotate, admission.Options{}))

	// A decider is tested without a server.
	for _, pod := range []string{`{"metadata":{}}`, `{"metadata":{"annotations":{"a":"b"}}}`} {
		decision, _ := annotate(context.Background(), &usher.Request{Object: usher.RawObject([]byte(pod))})
		patch, _ := json.Marshal(decision.Patch)
		fmt.Println(string(patch))
	}
	// Output:
	// [{"op":"add","path":"/metadata/annotations","value":{"example.com/greeting":"hello"}}]
	// [{"op":"add","path":"/metadata/annotations/example.com~1greeting","value":"hello"}]
}

// A validating webhook: nothing is written to namespaces that are frozen.
func ExampleValidate() {
	decide := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Namespace == "frozen" {
			return usher.Denied("namespace %s is frozen", r.Namespace), nil
		}
		return usher.Allowed(), nil
	})

	mux := http.NewServeMux()
	mux.Handle("/validate", admission.Validate(decide, admission.Options{}))

	decision, _ := decide(context.Background(), &usher.Request{Namespace: "frozen"})
	fmt.Println(decision.Verdict, decision.Message)
	// Output: deny namespace frozen is frozen
}

// A handler is tested without a server, by a review as an API server posts it.
func ExampleValidate_handler() {
	handler := admission.Validate(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Denied("not today"), nil
	}), admission.Options{})

	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "DELETE", "name": "cart", "namespace": "shop",
		"kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"},
		"oldObject": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "shop"}}}}`
	request := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(recorder.Code, answer.Response.Allowed, answer.Response.Result.Message)
	// Output: 200 false not today
}

// A decider is tested in both phases, on the request of a recorded review: the object that would be
// stored, and who denies it.
func ExampleDecide() {
	decider := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		object, err := r.Object.Tree()
		if err != nil {
			return usher.Decision{}, err
		}
		if r.Phase == usher.Mutate {
			return usher.Patched(usher.PatchOp{Op: "add", Path: "/spec/hostNetwork", Value: false}), nil
		}
		if spec, _ := object["spec"].(map[string]any); spec["hostNetwork"] != false {
			return usher.Denied("spec.hostNetwork has to be false"), nil
		}
		return usher.Allowed(), nil
	})

	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(`{"request": {"uid": "1", "operation": "CREATE", "name": "cart", "namespace": "shop",
		"kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"},
		"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart"}, "spec": {}}}}`), &review); err != nil {
		fmt.Println(err)
		return
	}
	result, err := admission.Decide(context.Background(), decider, admission.RequestOf(review.Request))
	if err != nil {
		fmt.Println(err)
		return
	}
	var pod corev1.Pod
	fmt.Println(result.Denial(), result.Object.Into(&pod), pod.Name)
	// Output: <nil> <nil> cart
}

// A function that does not look at the phase denies in the first one.
func ExampleResult_Denial() {
	ctx := context.Background()
	decider := usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("not today"), nil })
	request := &usher.Request{Operation: usher.Create, Namespace: "shop", Name: "cart", Object: usher.RawObject([]byte(`{"metadata":{"name":"cart"}}`))}
	result, err := admission.Decide(ctx, decider, request)
	if err != nil {
		fmt.Println(err)
		return
	}
	if denial := result.Denial(); denial != nil {
		fmt.Println(denial.Message)
	}
	fmt.Printf("%q %q", result.Mutation.Verdict, result.Validation.Verdict)
	// Output:
	// not today
	// "deny" ""
}
