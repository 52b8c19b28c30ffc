package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A seed is a request of seeds.yaml.
type seed struct {
	Name   string         `json:"name"`
	What   string         `json:"what"`
	User   string         `json:"user"`
	Groups []string       `json:"groups"`
	Do     string         `json:"do"`
	At     string         `json:"at"`
	NS     string         `json:"ns"`
	Named  string         `json:"named"`
	Never  bool           `json:"never"`
	Object map[string]any `json:"object"`
	On     map[string]any `json:"of"`
	Change map[string]any `json:"change"`

	group, why string
}

type seeds struct {
	Namespaces []string         `json:"namespaces"`
	Before     []map[string]any `json:"before"`
	After      []struct {
		Object map[string]any `json:"object"`
	} `json:"after"`
	Workloads []struct {
		Group   string           `json:"group"`
		Why     string           `json:"why"`
		Objects []map[string]any `json:"objects"`
	} `json:"workloads"`
	Requests []struct {
		Group string `json:"group"`
		Why   string `json:"why"`
		Users struct {
			User   string   `json:"user"`
			Groups []string `json:"groups"`
		} `json:"users"`
		List []seed `json:"list"`
	} `json:"requests"`
}

// all returns the requests in order: those of the workloads, then the others.
func (s *seeds) all() []seed {
	var all []seed
	for _, w := range s.Workloads {
		for _, object := range w.Objects {
			for _, one := range ofWorkload(object) {
				one.group, one.why = w.Group, w.Why
				all = append(all, one)
			}
		}
	}
	for _, g := range s.Requests {
		for _, one := range g.List {
			one.group, one.why = g.Group, g.Why
			if one.User == "" {
				one.User = g.Users.User
			}
			if one.Groups == nil {
				one.Groups = g.Users.Groups
			}
			all = append(all, one)
		}
	}
	return all
}

// again ends the name of a workload that is applied once more, as a dry run.
const again = "-again"

// ofWorkload returns the requests that running a workload takes.
func ofWorkload(object map[string]any) []seed {
	u := unstructured.Unstructured{Object: object}
	name, namespace, kind := u.GetName(), u.GetNamespace(), u.GetKind()
	resource := "apps/v1/" + strings.ToLower(kind) + "s"
	admins := []string{"kubeadm:cluster-admins", "system:authenticated"}
	admin := seed{User: "kubernetes-admin", Groups: admins, At: resource, Object: object}
	apply, rollout, removed := admin, admin, admin
	fresh := u.DeepCopy()
	fresh.SetName(name + again)
	apply.Name, apply.Do, apply.What, apply.Object = name+"-applied", "CREATE", "an administrator applies the "+kind+" "+name, fresh.Object
	rollout.Name, rollout.Do, rollout.What = name+"-rollout", "UPDATE", "an administrator restarts the pods of the "+kind+" "+name
	rollout.Change = map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}}
	removed.Name, removed.Do, removed.What = name+"-removed", "DELETE", "an administrator deletes the "+kind+" "+name+" to install it again"
	all := []seed{apply, rollout, removed}
	by := "system:serviceaccount:kube-system:daemon-set-controller"
	if kind == "Deployment" {
		by = "system:serviceaccount:kube-system:replicaset-controller"
		all = append(all, seed{
			Name: name + "-replicaset", What: "the replica set of the Deployment " + name + " is made", Do: "CREATE", At: "apps/v1/replicasets",
			User: "system:serviceaccount:kube-system:deployment-controller", NS: namespace, Named: name,
		})
	}
	return append(all, seed{Name: name + "-pod", What: "a pod of the " + kind + " " + name + " is made", Do: "CREATE", At: "v1/pods", User: by, NS: namespace, Named: name})
}

// A witness is a webhook that records what it is sent.
type witness struct {
	mu   sync.Mutex
	seen []*admissionv1.AdmissionRequest
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.seen = append(w.seen, review.Request)
	w.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	_ = json.NewEncoder(rw).Encode(review)
}

// find returns the first request of a seed, nil if there is none.
func (w *witness) find(s *seed, gvr schema.GroupVersionResource, sub string) *admissionv1.AdmissionRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.seen {
		sent := s.Object != nil || s.On != nil
		if string(r.Operation) != s.Do || r.UserInfo.Username != s.User || r.Resource.Group != gvr.Group || r.Resource.Resource != gvr.Resource || r.SubResource != sub {
			continue
		}
		if sent != (r.DryRun != nil && *r.DryRun) && s.Do != "CONNECT" {
			continue
		}
		name := s.Named
		if s.Object != nil {
			name = (&unstructured.Unstructured{Object: s.Object}).GetName()
		} else if s.On != nil {
			name = (&unstructured.Unstructured{Object: s.On}).GetName()
		}
		if sent && (r.Name == name || name == "" || s.On != nil) || !sent && strings.HasPrefix(r.Name+generated(r), name) && (s.NS == "" || s.NS == r.Namespace) {
			return r
		}
	}
	return nil
}

// generated is the beginning of a name that a request does not have: that of the object is not made
// yet, or all objects of a collection are deleted.
func generated(r *admissionv1.AdmissionRequest) string {
	if r.Name != "" {
		return ""
	}
	var object metav1.PartialObjectMetadata
	for _, raw := range [][]byte{r.Object.Raw, r.OldObject.Raw} {
		if raw != nil {
			_ = json.Unmarshal(raw, &object)
		}
	}
	if object.Name != "" {
		return object.Name
	}
	return object.GenerateName
}
