package reference_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// compile fails the test if ref has problems.
func compile(t testing.TB, ref *v1alpha1.ResourceRefer) *reference.Reference {
	t.Helper()
	r, problems := reference.Compile(ref, reference.ValueSuffix)
	if len(problems) > 0 {
		t.Fatalf("Compile: %v", problems)
	}
	return r
}

// ask returns the fact that r needs for object, nil if it needs none.
func ask(r *reference.Reference, object map[string]any) (fact.Ref, any, error) {
	in := &rule.Input{Request: &usher.Request{Namespace: "shop"}, Object: object}
	value, err := r.Root(in)
	if missing, ok := errors.AsType[*fact.Missing](err); ok {
		return missing.Ref, nil, nil
	}
	return nil, value, err
}

func TestCurrentAndOld(t *testing.T) {
	t.Parallel()
	old := map[string]any{"spec": map[string]any{"replicas": int64(2)}}
	tests := []struct {
		from   v1alpha1.ValueRefFrom
		old    map[string]any
		want   any
		ok     bool
		expr   string
		reason string
	}{
		{v1alpha1.FromCurrentObject, old, int64(3), true, "object.spec.replicas", "the object of the request"},
		{v1alpha1.FromOldObject, old, int64(2), true, "oldObject.spec.replicas", "the object before"},
		{v1alpha1.FromOldObject, nil, nil, false, "oldObject.spec.replicas", "on CREATE there is none"},
	}
	for _, test := range tests {
		r := compile(t, &v1alpha1.ResourceRefer{From: test.from, Path: "/spec/replicas"})
		in := &rule.Input{Object: object(), OldObject: test.old}
		got, ok, err := r.Value(in)
		if got != test.want || ok != test.ok || err != nil {
			t.Errorf("%s: %v, %v, %v, want %v, %v: %s", r, got, ok, err, test.want, test.ok, test.reason)
		}
		if got := r.Expr(); got != test.expr {
			t.Errorf("%s is %s in CUE, want %s", r, got, test.expr)
		}
		if name, _, err := r.Param(in); name != "" || r.Declaration() != "" || err != nil {
			t.Errorf("%s needs the parameter %q, declared by %q, %v; want none", r, name, r.Declaration(), err)
		}
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	owned := func(namespace string, owners ...any) map[string]any {
		metadata := map[string]any{"ownerReferences": owners}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		return map[string]any{"metadata": metadata}
	}
	set := map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7f"}
	tests := []struct {
		object map[string]any
		want   *fact.Object
		err    string
		reason string
	}{
		{owned("web", set, "second"), &fact.Object{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "web", Name: "cart-7f", AnyScope: true}, "",
			"the first owner, in the namespace of the object if its kind has namespaces"},
		{owned("", set), &fact.Object{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "cart-7f", AnyScope: true}, "",
			"an object that does not say its namespace is in that of the request"},
		{owned("web", map[string]any{"kind": "ReplicaSet"}), nil, "", "an owner without name is nothing"},
		{owned("web"), nil, "object has no owner reference", "no owners"},
		{map[string]any{}, nil, "object has no owner reference", "no metadata"},
	}
	r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromOwner, Path: "/metadata/labels/team"})
	for _, test := range tests {
		ref, value, err := ask(r, test.object)
		if text(err) != test.err || value != nil {
			t.Errorf("value %v, error %q, want %q: %s", value, text(err), test.err, test.reason)
		}
		if diff := cmp.Diff(test.want, objectOf(ref)); diff != "" {
			t.Errorf("fact (-want +got): %s\n%s", test.reason, diff)
		}
	}
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	subject := map[string]any{"metadata": map[string]any{
		"namespace":   "shop",
		"labels":      map[string]any{"app": "cart", "odd": "not a label!"},
		"annotations": map[string]any{"a": "si", "b": "te", "number": int64(7), "null": nil, "empty": ""},
	}}
	labelled := func(labels map[string]string, expressions ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: expressions}
	}
	tests := []struct {
		name, namespace string
		labels          *metav1.LabelSelector
		fields          *v1alpha1.FieldSelector
		want            string
		err             string
		reason          string
	}{
		{name: "site", namespace: "shop", want: "v1 ConfigMap shop/site", reason: "by name"},
		{name: "site", want: "v1 ConfigMap site", reason: "a cluster-scoped object has no namespace"},
		{name: "si{{metadata.annotations.b}}", namespace: "{{ metadata.namespace }}", want: "v1 ConfigMap shop/site", reason: "placeholders, surrounded by text and spaces"},
		{name: "{{metadata.annotations.a}}{{metadata.annotations.b}}", want: "v1 ConfigMap site", reason: "any number of them"},
		{name: "{{metadata.annotations.nope}}", namespace: "shop", reason: "a placeholder that finds nothing makes the reference empty"},
		{name: "site", namespace: "{{metadata.nope.deeper}}", reason: "a missing parent is nothing too"},
		{name: "{{metadata.annotations.number}}", err: "not a string", reason: "only strings are put into names"},
		{name: "{{metadata.annotations.null}}", err: "not a string", reason: "null is no string"},
		{name: "{{metadata.namespace.x}}", err: "not an object", reason: "a string has no fields"},
		{name: "{{metadata.annotations.empty}}", labels: labelled(map[string]string{"app": "x"}), want: "v1 ConfigMap (app=x)", reason: "an empty name is none"},
		{name: "a{{", want: "v1 ConfigMap a{{", reason: "half a placeholder is text"},
		{reason: "neither name nor selector refers to nothing"},
		{labels: labelled(map[string]string{"app": "{{metadata.labels.app}}"}), want: "v1 ConfigMap (app=cart)", reason: "by label, in all namespaces"},
		{namespace: "shop", labels: labelled(nil, metav1.LabelSelectorRequirement{Key: "app", Operator: "In", Values: []string{"{{metadata.labels.app}}", "zzz"}}),
			want: "v1 ConfigMap shop/(app in (cart,zzz))", reason: "by label expression"},
		{labels: labelled(map[string]string{"app": "{{metadata.labels.nope}}"}), reason: "nothing is selected by a missing value"},
		{labels: labelled(map[string]string{"app": "{{metadata.labels.odd}}"}), err: "select v1 ConfigMap", reason: "no label has such a value"},
		{fields: &v1alpha1.FieldSelector{MatchFields: map[string]string{"metadata.name": "site"}}, want: `v1 ConfigMap (["metadata" "name"] In ["site"])`, reason: "by field"},
		{name: "site", labels: labelled(map[string]string{"app": "x"}), want: "v1 ConfigMap site", reason: "a name wins"},
	}
	for _, test := range tests {
		r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/zone", K8s: &v1alpha1.ResourceSelector{
			APIVersion: "v1", Kind: "ConfigMap", Name: test.name, Namespace: test.namespace, LabelSelector: test.labels, FieldSelector: test.fields,
		}})
		ref, value, err := ask(r, subject)
		if !strings.Contains(text(err), test.err) || (err != nil) != (test.err != "") || value != nil {
			t.Errorf("value %v, error %q, want %q: %s", value, text(err), test.err, test.reason)
		}
		got := ""
		if ref != nil {
			got = ref.String()
		}
		if got != test.want {
			t.Errorf("asks for %q, want %q: %s", got, test.want, test.reason)
		}
	}
}

func TestSelectorMatches(t *testing.T) {
	t.Parallel()
	r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/zone", K8s: &v1alpha1.ResourceSelector{
		APIVersion: "v1", Kind: "ConfigMap",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "{{metadata.name}}"}},
		FieldSelector: &v1alpha1.FieldSelector{MatchFields: map[string]string{"data.zone": "eu"}},
	}})
	ref, _, err := ask(r, object())
	if err != nil || ref == nil {
		t.Fatalf("asks for %v, %v", ref, err)
	}
	candidate := func(app, zone string) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": app}}, "data": map[string]any{"zone": zone}}
	}
	tests := []struct {
		object map[string]any
		want   bool
		reason string
	}{
		{candidate("cart", "eu"), true, "both match"},
		{candidate("other", "eu"), false, "the label does not"},
		{candidate("cart", "us"), false, "the field does not"},
		{map[string]any{"data": map[string]any{"zone": "eu"}}, false, "no metadata, no labels"},
	}
	for _, test := range tests {
		if got := ref.(*fact.Object).Selector.Matches(test.object); got != test.want {
			t.Errorf("Matches(%v) = %v, want %v: %s", test.object, got, test.want, test.reason)
		}
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	tests := []struct {
		ref    v1alpha1.ResourceRefer
		suffix string
		value  any
		err    error
		want   any
		ok     bool
		text   string
		name   string
		expr   string
		reason string
	}{
		{ref: v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/zone", K8s: &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "site"}},
			value: map[string]any{"data": map[string]any{"zone": "eu"}}, want: "eu", ok: true, name: "otherObject", expr: "otherObject.data.zone", reason: "an object"},
		{ref: v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/zone", K8s: &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "site"}},
			err: refused, text: "connection refused", name: "otherObject", expr: "otherObject.data.zone", reason: "an object that cannot be had"},
		{ref: v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/data/zone", K8s: &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{}}},
			value: nil, suffix: reference.DataSuffix, name: "otherObject_d", expr: "otherObject_d.data.zone", reason: "no object was selected"},
		{ref: v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: `header["X-Team"][0]`, Http: &v1alpha1.HttpDataRef{URL: "http://svc"}},
			value: map[string]any{"body": map[string]any{}, "header": map[string]any{"X-Team": []any{"blue"}}}, want: "blue", ok: true, suffix: reference.DataSuffix,
			name: "http_d", expr: `http_d.header["X-Team"][0]`, reason: "a header of an answer"},
		{ref: v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "body.team", Http: &v1alpha1.HttpDataRef{URL: "http://svc"}},
			err: refused, text: "getHttpResponse GET http://svc: connection refused", name: "http", expr: "http.body.team", reason: "a service that does not answer"},
	}
	for _, test := range tests {
		r, problems := reference.Compile(&test.ref, test.suffix)
		if len(problems) > 0 {
			t.Fatalf("%s: %v", test.reason, problems)
		}
		known := &fact.Known{}
		in := &rule.Input{Object: object(), Facts: known}
		_, _, err := r.Value(in)
		var missing *fact.Missing
		if !errors.As(err, &missing) {
			t.Errorf("error %v before the fact is known, want *fact.Missing: %s", err, test.reason)
			continue
		}
		known.Set(missing.Ref, test.value, test.err)
		got, ok, err := r.Value(in)
		if got != test.want || ok != test.ok || text(err) != test.text {
			t.Errorf("value %v, %v, %v, want %v, %v, %s: %s", got, ok, err, test.want, test.ok, test.text, test.reason)
		}
		name, value, err := r.Param(in)
		if name != test.name || text(err) != test.text || err == nil && !cmp.Equal(value, test.value) {
			t.Errorf("parameter %s = %v, %v, want %s = %v: %s", name, value, err, test.name, test.value, test.reason)
		}
		if want := test.name + ": data.extraParams." + test.name; r.Declaration() != want || r.Expr() != test.expr {
			t.Errorf("in CUE %s, %s, want %s, %s: %s", r.Declaration(), r.Expr(), want, test.expr, test.reason)
		}
	}
}

func TestOpenPath(t *testing.T) {
	t.Parallel()
	r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromCurrentObject, Path: "spec.containers[len(object.spec.containers)-1].image"})
	if !r.Open() {
		t.Error("an index that is computed is not open")
	}
	if _, _, err := r.Value(&rule.Input{Object: object()}); !errors.Is(err, reference.ErrNeedsEvaluator) {
		t.Errorf("error %v, want ErrNeedsEvaluator", err)
	}
	if got, want := r.Expr(), "(object.spec.containers[len(object.spec.containers)-1].image)"; got != want {
		t.Errorf("in CUE %s, want %s", got, want)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ref    *v1alpha1.ResourceRefer
		want   []string
		reason string
	}{
		{nil, []string{""}, "there is none"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromOwner}, []string{"path"}, "a reference to a whole object cannot be rendered"},
		{&v1alpha1.ResourceRefer{Path: "/a"}, []string{"from"}, "from where?"},
		{&v1alpha1.ResourceRefer{From: "moon", Path: "/a"}, []string{"from"}, "not from there"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/a"}, []string{"k8s"}, "it would crash kinitiras"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/a"}, []string{"http"}, "it would crash kinitiras"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/a", K8s: &v1alpha1.ResourceSelector{Name: "{{}}", Namespace: "{{ }}"}},
			[]string{"k8s", "k8s.namespace", "k8s.name"}, "all problems are told"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromK8s, Path: "/a", K8s: &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Pod", LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}, []string{"k8s.labelSelector"}, "an operator that does not exist"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/a", Http: &v1alpha1.HttpDataRef{URL: "svc/x", Method: "PUT", Params: map[string]string{"p": "{{}}"}, Auth: &v1alpha1.HttpRequestAuth{AuthURL: "login"}}},
			[]string{"http.method", "http.url", "http.params.p", "http.auth.authUrl"}, "all problems are told"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/a", Http: &v1alpha1.HttpDataRef{URL: "{{metadata.annotations.url}}"}}, []string{"http.url"}, "the object must not choose the host"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/a", Http: &v1alpha1.HttpDataRef{URL: "http:///x"}}, []string{"http.url"}, "no host"},
		{&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/a", Http: &v1alpha1.HttpDataRef{URL: "http://svc/{{}}"}}, []string{"http.url"}, "an empty placeholder"},
	}
	for _, test := range tests {
		r, problems := reference.Compile(test.ref, reference.ValueSuffix)
		var got []string
		for _, p := range problems {
			got = append(got, p.Field)
			if p.Severity != rule.Error || p.What == "" || p.Do == "" {
				t.Errorf("problem %+v does not say what is wrong and what to do: %s", p, test.reason)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || r != nil {
			t.Errorf("reference %v, problems at (-want +got): %s\n%s", r, test.reason, diff)
		}
	}
}

// TestNoSecrets: a reference is logged, credentials are not.
func TestPathThatIsSplitInAKey(t *testing.T) {
	t.Parallel()
	for path, warned := range map[string]bool{
		`metadata.annotations["example.com/team"]`:   true,
		"/metadata/annotations/example.com~1team":    false,
		`/metadata/annotations/"example.com/team"`:   false,
		`metadata.annotations["example.com"]`:        false,
		`data[object.metadata.labels.team]`:          false,
		`/metadata/annotations["example.com~1team"]`: true,
	} {
		r, problems := reference.Compile(&v1alpha1.ResourceRefer{From: v1alpha1.FromCurrentObject, Path: path}, reference.ValueSuffix)
		if r == nil || warned != (len(problems) == 1 && problems[0].Severity == rule.Warning && problems[0].Field == "path") {
			t.Errorf("%s: problems %v, want a warning: %t", path, problems, warned)
		}
	}
}

func TestNoSecrets(t *testing.T) {
	t.Parallel()
	r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "body.team", Http: &v1alpha1.HttpDataRef{
		URL: "http://user:secret@svc/x?key=secret", Auth: &v1alpha1.HttpRequestAuth{StaticToken: "secret"},
	}})
	if got, want := r.String(), "http GET http://svc/x body.team"; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}

func BenchmarkReferenceValue(b *testing.B) {
	r := compile(b, &v1alpha1.ResourceRefer{From: v1alpha1.FromCurrentObject, Path: "/metadata/labels/team"})
	in := &rule.Input{Object: object()}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := r.Value(in); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func objectOf(ref fact.Ref) *fact.Object {
	o, _ := ref.(*fact.Object)
	return o
}
