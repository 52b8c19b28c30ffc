package dir

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsjson "sigs.k8s.io/json"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// kindHint says which kind of policy may be meant by one that does not exist: the same one in
// another version, one with a similar name, or any.
func kindHint(gvk schema.GroupVersionKind) string {
	var versions, names []string
	for _, kind := range api.Kinds() {
		if kind.GroupKind() == gvk.GroupKind() {
			versions = append(versions, kind.GroupVersion().String())
		}
		names = append(names, kind.Kind)
	}
	if len(versions) > 0 {
		return "the versions of " + gvk.Kind + " are: " + strings.Join(versions, ", ")
	}
	near := gvk.Kind
	if !slices.Contains(names, near) {
		near = rule.Nearest(gvk.Kind, names)
	}
	if kind, ok := api.KindCalled(near); ok {
		return fmt.Sprintf("did you mean %s %s?", kind.GroupVersion(), kind.Kind)
	}
	return "there are " + strings.Join(kindNames(), ", ")
}

// kindNames are the kinds of policies, with their versions.
func kindNames() []string {
	var names []string
	for _, kind := range api.Kinds() {
		names = append(names, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return names
}

// foreignEngine returns whose policy a kind is, if it is one of another policy engine, and how such
// policies can be written for Usher.
func foreignEngine(gvk schema.GroupVersionKind) (engine, do string) {
	switch {
	case gvk.Group == "kyverno.io" && slices.Contains([]string{"ClusterPolicy", "Policy", "PolicyException", "ClusterCleanupPolicy", "CleanupPolicy"}, gvk.Kind),
		gvk.Group == "policies.kyverno.io":
		engine = "Kyverno"
	case strings.HasSuffix(gvk.Group, ".gatekeeper.sh") && gvk.Group != "status.gatekeeper.sh":
		engine = "Gatekeeper"
	default:
		return "", ""
	}
	if engine == "Gatekeeper" {
		return engine, "'usher import gatekeeper' makes a ClusterObjectPolicy of a template in CEL with its constraints"
	}
	return engine, "'usher import kyverno' makes an object policy of it"
}

// ofOtherEngine is a policy of another engine, which nothing would enforce here.
func ofOtherEngine(raw []byte, gvk schema.GroupVersionKind, engine, do string, at api.Position) found {
	return found{at: at, unreadable: fmt.Errorf("%s %s: this is a policy of %s, which Usher does not enforce", gvk.Kind, nameOf(raw), engine), do: do}
}

// nameOf returns the name of an object; empty if it cannot be read.
func nameOf(raw []byte) string {
	var object metav1.PartialObjectMetadata
	_ = sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &object)
	return object.Name
}
