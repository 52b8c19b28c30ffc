package apiserver_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestDoor(t *testing.T) {
	t.Parallel()
	doortest.Run(t, func(_ *testing.T, d usher.Decider) doortest.Door {
		return door{apiserver.New(d, apiserver.Options{Log: slog.New(slog.DiscardHandler)})}
	})
}

// A door is a server that calls the plugin, with objects that have no Go type.
type door struct{ plugin *apiserver.Plugin }

func (d door) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	said := &recorder{}
	ctx := warning.WithWarningRecorder(t.Context(), said)
	attributes := attributesOf(t, r)
	err := call(ctx, d.plugin, r.Phase, attributes)
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: said.texts}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		s := status.ErrStatus
		answer.Verdict, answer.Code, answer.Reason, answer.Message = usher.Deny, s.Code, string(s.Reason), s.Message
	} else if err != nil {
		t.Errorf("error is no status: %v", err)
	}
	if object, ok := attributes.GetObject().(*unstructured.Unstructured); ok {
		answer.Object = object.Object
	}
	return answer
}

func call(ctx context.Context, plugin *apiserver.Plugin, phase usher.Phase, a admission.Attributes) error {
	if phase == usher.Mutate {
		return plugin.Admit(ctx, a, objects())
	}
	return plugin.Validate(ctx, a, objects())
}

func objects() admission.ObjectInterfaces {
	return admission.NewObjectInterfacesFromScheme(scheme.Scheme)
}

// attributesOf are what a server hands to plugins for r.
func attributesOf(t *testing.T, r *usher.Request) admission.Attributes {
	t.Helper()
	info := &user.DefaultInfo{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra}
	var options runtime.Object
	if r.Operation == usher.Create {
		options = &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}
	}
	return admission.NewAttributesRecord(custom(t, r.Object), custom(t, r.OldObject), r.Kind, r.Namespace, r.Name,
		r.Resource, r.Subresource, admission.Operation(r.Operation), options, r.DryRun, info)
}

// custom is an object of which a server has no Go type; nil for none.
func custom(t *testing.T, object *usher.Object) runtime.Object {
	t.Helper()
	tree, err := object.Tree()
	if err != nil {
		t.Fatal(err)
	}
	if tree == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)}
}

// A recorder keeps the warnings for the client.
type recorder struct {
	mu    sync.Mutex
	texts []string
}

func (r *recorder) AddWarning(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}
