package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	kyvernov1 "github.com/kyverno/kyverno/api/kyverno/v1"
	kyvernov2 "github.com/kyverno/kyverno/api/kyverno/v2"
	"github.com/kyverno/kyverno/pkg/config"
	"github.com/kyverno/kyverno/pkg/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	"github.com/kyverno/kyverno/pkg/engine/factories"
	"github.com/kyverno/kyverno/pkg/engine/jmespath"
	"github.com/kyverno/kyverno/pkg/engine/policycontext"
	"github.com/kyverno/kyverno/pkg/exceptions"
	imageverifycache "github.com/kyverno/kyverno/pkg/image/verification/cache"
	"github.com/kyverno/kyverno/pkg/userinfo"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
)

// configured has the defaults of the ConfigMap that Kyverno's chart makes.
func configured() config.Configuration {
	c := config.NewDefaultConfiguration(false)
	c.Load(&corev1.ConfigMap{Data: map[string]string{
		"excludeGroups":                 "system:nodes",
		"enableDefaultRegistryMutation": "true",
		"defaultRegistry":               "docker.io",
		"resourceFilters": "[Event,*,*][*/*,kube-system,*][*/*,kube-public,*][*/*,kube-node-lease,*][Node,*,*][Node/?*,*,*][APIService,*,*][APIService/?*,*,*]" +
			"[TokenReview,*,*][SubjectAccessReview,*,*][SelfSubjectAccessReview,*,*][Binding,*,*][Pod/binding,*,*][ReplicaSet,*,*][ReplicaSet/?*,*,*]",
	}})
	return c
}

// answer asks the engine about a row, and writes down what it says. If it panics, each rule is asked alone: one that
// panics is a panic.
func answer(f *corpus.File, r *corpus.Row) error {
	if err := ask(f, r); err != nil || r.Answers[panicked] == "" {
		return err
	}
	together := map[string]string{}
	spec, _ := f.Policy["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for _, rule := range rules {
		alone, policy := *f, maps.Clone(f.Policy)
		alone.Policy = policy
		changed := maps.Clone(spec)
		changed["rules"] = []any{rule}
		policy["spec"] = changed
		if err := ask(&alone, r); err != nil {
			return err
		}
		if r.Answers[panicked] != "" {
			rule, _ := rule.(map[string]any)
			name, _ := rule["name"].(string)
			r.Answers = map[string]string{name: "panic"}
		}
		maps.Copy(together, r.Answers)
	}
	r.Answers = together
	return nil
}

// panicked is the name of an answer for a whole policy.
const panicked = "*"

func ask(f *corpus.File, r *corpus.Row) error {
	var policy kyvernov1.PolicyInterface = &kyvernov1.ClusterPolicy{}
	if f.Policy["kind"] == "Policy" {
		policy = &kyvernov1.Policy{}
	}
	if err := convert(f.Policy, policy); err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	var known listed
	for _, e := range f.Exceptions {
		exception := &kyvernov2.PolicyException{}
		if err := convert(e, exception); err != nil {
			return fmt.Errorf("read an exception: %w", err)
		}
		known = append(known, exception)
	}
	cfg := configured()
	jp := jmespath.New(cfg)
	isCluster := true
	objects := existing(slices.Concat(r.Data, interpret.User(r.User).Bindings()))

	e := engine.NewEngine(cfg, jp, objects, nil, imageverifycache.DisabledImageVerifyCache(),
		factories.DefaultContextLoaderFactory(objects), exceptions.New(known), &isCluster)
	request, gvk, err := admission(r)
	if err != nil {
		return err
	}
	info := kyvernov2.RequestInfo{AdmissionUserInfo: request.UserInfo}
	info.Roles, info.ClusterRoles, err = userinfo.GetRoleRef(roleBindings(objects), clusterRoleBindings(objects), request.UserInfo, request.Namespace)
	if err != nil {
		return fmt.Errorf("find the roles of the user: %w", err)
	}
	about, err := policycontext.NewPolicyContextFromAdmissionRequest(jp, *request, info, gvk, cfg)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	about = about.WithPolicy(policy).WithNamespaceLabels(r.NamespaceLabels)

	recorded := map[string]string{}
	r.Answers, r.Patched = recorded, nil
	if policy.GetSpec().HasMutate() && (r.Operation == "CREATE" || r.Operation == "UPDATE") {
		response := guarded(recorded, func() engineapi.EngineResponse { return e.Mutate(context.Background(), about) })
		if patched := response.PatchedResource.Object; patched != nil && !reflect.DeepEqual(patched, about.NewResource().Object) {
			r.Patched = patched
		}
		write(recorded, response)
	}
	if policy.GetSpec().HasValidate() {
		write(recorded, guarded(recorded, func() engineapi.EngineResponse { return e.Validate(context.Background(), about) }))
	}
	return nil
}

// guarded writes down that the engine panics, which its webhook answers as an error.
func guarded(into map[string]string, ask func() engineapi.EngineResponse) (response engineapi.EngineResponse) {
	defer func() {
		if recover() != nil {
			into[panicked] = "panic"
		}
	}()
	return ask()
}

func write(into map[string]string, response engineapi.EngineResponse) {
	for _, rule := range response.PolicyResponse.Rules {
		into[rule.Name()] = string(rule.Status())
	}
}

// admission returns the request of a row.
func admission(r *corpus.Row) (*admissionv1.AdmissionRequest, schema.GroupVersionKind, error) {
	object := unstructured.Unstructured{Object: r.Object}
	if r.Operation == "DELETE" {
		object.Object = r.OldObject
	}
	gvk := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	kind, of := metav1.GroupVersionKind(gvk), metav1.GroupVersionResource(resource)
	user := r.User.Name
	if user == "" {
		user = "somebody"
	}
	request := &admissionv1.AdmissionRequest{
		UID: "1", Kind: kind, RequestKind: &kind, Resource: of, RequestResource: &of, SubResource: r.Subresource,
		Name: object.GetName(), Namespace: object.GetNamespace(), Operation: admissionv1.Operation(r.Operation),
		UserInfo: authenticationv1.UserInfo{Username: user, Groups: append([]string{"system:authenticated"}, r.User.Groups...)},
	}
	if gvk.Kind == "Namespace" {
		request.Namespace = object.GetName()
	}
	for into, from := range map[*runtime.RawExtension]map[string]any{&request.Object: r.Object, &request.OldObject: r.OldObject} {
		if from == nil {
			continue
		}
		raw, err := json.Marshal(from)
		if err != nil {
			return nil, gvk, fmt.Errorf("write the object: %w", err)
		}
		into.Raw = raw
	}
	return request, gvk, nil
}

// convert reads a tree as a type.
func convert(from map[string]any, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// listed implements the lister of exceptions.
type listed []*kyvernov2.PolicyException

func (l listed) List(labels.Selector) ([]*kyvernov2.PolicyException, error) { return l, nil }

// roleBindings and clusterRoleBindings implement the listers of bindings.
type (
	roleBindings        existing
	clusterRoleBindings existing
)

func (l roleBindings) List(labels.Selector) ([]*rbacv1.RoleBinding, error) {
	return objectsOf[rbacv1.RoleBinding](l, "RoleBinding")
}

func (l clusterRoleBindings) List(labels.Selector) ([]*rbacv1.ClusterRoleBinding, error) {
	return objectsOf[rbacv1.ClusterRoleBinding](l, "ClusterRoleBinding")
}

func objectsOf[T any](all []map[string]any, kind string) ([]*T, error) {
	var found []*T
	for _, o := range all {
		if o["kind"] != kind {
			continue
		}
		var one T
		if err := convert(o, &one); err != nil {
			return nil, fmt.Errorf("read a binding: %w", err)
		}
		found = append(found, &one)
	}
	return found, nil
}

// existing are the objects of a cluster. It answers what policies ask: GETs of objects and lists.
type existing []map[string]any

func (e existing) Get(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	for _, o := range e {
		u := unstructured.Unstructured{Object: o}
		if u.GetKind() == "ConfigMap" && u.GetNamespace() == namespace && u.GetName() == name {
			c := &corev1.ConfigMap{}
			return c, convert(o, c)
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (e existing) RawAbsPath(_ context.Context, path, method string, _ io.Reader) ([]byte, error) {
	if method != "" && method != "GET" {
		return nil, fmt.Errorf("%s %s is not recorded", method, path)
	}
	found, err := interpret.Get(e, path)
	if err != nil {
		return nil, err
	}
	return json.Marshal(found)
}

func (e existing) CanI(context.Context, string, string, string, string, string) (bool, string, error) {
	return false, "", fmt.Errorf("rights are not recorded")
}

func (e existing) GetResource(context.Context, string, string, string, string, ...string) (*unstructured.Unstructured, error) {
	return nil, fmt.Errorf("objects are not recorded")
}

func (e existing) ListResource(context.Context, string, string, string, *metav1.LabelSelector) (*unstructured.UnstructuredList, error) {
	return nil, fmt.Errorf("lists are not recorded")
}

func (e existing) GetResources(context.Context, string, string, string, string, string, string, *metav1.LabelSelector) ([]engineapi.Resource, error) {
	return nil, fmt.Errorf("lists are not recorded")
}

func (e existing) GetNamespace(context.Context, string, metav1.GetOptions) (*corev1.Namespace, error) {
	return nil, fmt.Errorf("namespaces are not recorded")
}

func (e existing) IsNamespaced(_, _, kind string) (bool, error) {
	switch kind {
	case "Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "PersistentVolume", "StorageClass", "CustomResourceDefinition":
		return false, nil
	}
	return true, nil
}
