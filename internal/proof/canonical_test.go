package proof_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/proof"
)

// kinds are those that need a proof.
func kinds() []api.Kind {
	var all []api.Kind
	for _, kind := range api.Kinds() {
		if kind.NeedsProof {
			all = append(all, kind)
		}
	}
	return all
}

func kindOf(t testing.TB, name string) api.Kind {
	t.Helper()
	for _, kind := range kinds() {
		if kind.Kind == name {
			return kind
		}
	}
	t.Fatalf("there is no kind %s that needs a proof", name)
	return api.Kind{}
}

// policy decodes a policy p of a kind whose spec is given in YAML.
func policy(t testing.TB, name, spec string) api.Object {
	t.Helper()
	kind := kindOf(t, name)
	version, _ := kind.ToAPIVersionAndKind()
	namespace := ""
	if kind.Namespaced {
		namespace = ", namespace: shop"
	}
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, "{apiVersion: %s, kind: %s, metadata: {name: p%s}, spec: %s}", version, name, namespace, spec))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, raw)
}

func decode(t testing.TB, raw []byte) api.Object {
	t.Helper()
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Object
}

func canonical(t testing.TB, object api.Object) string {
	t.Helper()
	text, err := proof.Canonical(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const allow = "effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"

func override(overrider string) string { return "{overrideRules: [{overriders: " + overrider + "}]}" }

func TestCanonical(t *testing.T) {
	t.Parallel()
	value := func(value string) string { return override("{plaintext: [{path: /x, op: add, value: " + value + "}]}") }
	limit := func(cpu string) string {
		return override("{template: {type: resources, resources: {limits: {cpu: " + cpu + "}}}}")
	}
	for _, row := range []struct {
		reason, kind, a, b string
		same               bool
	}{
		{"defaults that are written", "ClusterAuthorizationPolicy", "{" + allow + "}", "{tier: cluster, enforcement: Enforce, " + allow + "}", true},
		{"another value than the default", "ClusterAuthorizationPolicy", "{" + allow + "}", "{tier: platform, " + allow + "}", false},
		{"another enforcement", "AuthorizationPolicy", "{" + allow + "}", "{enforcement: Audit, " + allow + "}", false},
		{"fields that are dropped", "AuthorizationPolicy", "{" + allow + "}", "{effort: Allow, " + allow + "}", true},
		{"empty texts", "AuthorizationPolicy", "{" + allow + "}", "{message: '', " + allow + "}", true},
		{"a list that is empty", "AuthorizationPolicy", "{" + allow + "}", "{when: [], " + allow + "}", false},
		{"a list that is null", "AuthorizationPolicy", "{" + allow + "}", "{when: null, " + allow + "}", true},
		{"an object that is empty", "AuthorizationPolicy", "{" + allow + "}", "{selectors: {}, " + allow + "}", false},
		{"false where nothing means true", "AuthorizationPolicy",
			"{effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}",
			"{effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods], collectionOverlap: false}]}", false},
		{"a time in another zone", "AuthorizationPolicy", "{validity: {notAfter: '2030-01-01T00:00:00Z'}, " + allow + "}", "{validity: {notAfter: '2030-01-01T02:00:00+02:00'}, " + allow + "}", true},
		{"a fraction of a second", "AuthorizationPolicy", "{validity: {notAfter: '2030-01-01T00:00:00Z'}, " + allow + "}", "{validity: {notAfter: '2030-01-01T00:00:00.5Z'}, " + allow + "}", false},
		{"a duration in other units", "ClusterAuthorizationPolicy", "{confirmWithin: 10m, " + allow + "}", "{confirmWithin: 600s, " + allow + "}", true},
		{"another duration", "ClusterAuthorizationPolicy", "{confirmWithin: 10m, " + allow + "}", "{confirmWithin: 601s, " + allow + "}", false},
		{"the order of verbs", "AuthorizationPolicy",
			"{effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get, list], apiGroups: [''], resources: [pods]}]}",
			"{effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [list, get], apiGroups: [''], resources: [pods]}]}", false},
		{"a number with a fraction that is none", "OverridePolicy", value("1"), value("1.0"), true},
		{"a number with an exponent", "OverridePolicy", value("1000"), value("1e3"), true},
		{"a number as text", "OverridePolicy", value("1"), value("'1'"), false},
		{"numbers that only floating point takes for the same", "OverridePolicy", value("9007199254740993"), value("9007199254740992"), false},
		{"null and nothing", "OverridePolicy", value("null"), override("{plaintext: [{path: /x, op: add}]}"), true},
		{"null and false", "OverridePolicy", value("null"), value("false"), false},
		{"keys in another order, within free JSON", "OverridePolicy", value("{a: 1, b: {c: 2}}"), value("{b: {c: 2}, a: 1}"), true},
		{"null within free JSON", "OverridePolicy", value("{a: null}"), value("{}"), false},
		{"a quantity in another unit", "OverridePolicy", limit("'1'"), limit("1000m"), true},
		{"another quantity", "OverridePolicy", limit("'1'"), limit("1001m"), false},
		{"suspended", "AuthorizationPolicy", "{" + allow + "}", "{suspend: true, " + allow + "}", false},
		{"not suspended", "AuthorizationPolicy", "{" + allow + "}", "{suspend: false, " + allow + "}", true},
		{"characters of HTML", "OverridePolicy", override("{cue: 'a < b'}"), override("{cue: 'a \\u003c b'}"), false},
	} {
		a, b := policy(t, row.kind, row.a), policy(t, row.kind, row.b)
		if same := canonical(t, a) == canonical(t, b); same != row.same || proof.Same(a, b) != row.same {
			t.Errorf("%s: same is %t\n%s%s", row.reason, same, canonical(t, a), canonical(t, b))
		}
	}
}

// TestDefaultsAreThoseOfTheCRDs finds every default in the definitions of kinds that need a
// proof: a policy that an API server completes has to stay the same.
func TestDefaultsAreThoseOfTheCRDs(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", kind.Group+"_"+kind.Resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		if n := defaultsBelow(spec); n != len(defaultsOf(spec)) {
			t.Errorf("%s has %d defaults, of which %d are fields of the spec itself: package proof does not know the others", kind.Kind, n, len(defaultsOf(spec)))
		}
		bare := kind.New()
		completed := kind.New()
		raw, err := json.Marshal(map[string]any{"spec": defaultsOf(spec)})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, completed); err != nil {
			t.Fatal(err)
		}
		if a, b := canonical(t, bare), canonical(t, completed); a != b {
			t.Errorf("%s without and with defaults:\n%s%s", kind.Kind, a, b)
		}
	}
}

func defaultsOf(schema apiextensionsv1.JSONSchemaProps) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for name, property := range schema.Properties {
		if property.Default != nil {
			all[name] = property.Default.Raw
		}
	}
	return all
}

func defaultsBelow(schema apiextensionsv1.JSONSchemaProps) int {
	n := 0
	for _, property := range schema.Properties {
		if property.Default != nil {
			n++
		}
		n += defaultsBelow(property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		n += defaultsBelow(*schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		n += defaultsBelow(*schema.AdditionalProperties.Schema)
	}
	return n
}

// TestEveryFieldCounts sets every field that a spec can have, one at a time.
func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	for _, kind := range api.Kinds() {
		object := kind.New()
		spec := reflect.ValueOf(api.Spec(object)).Elem()
		fill(spec)
		full, fields := canonical(t, object), 0
		each(spec, kind.Kind, func(path string) {
			fields++
			if canonical(t, object) == full {
				t.Errorf("%s does not count", path)
			}
		})
		if canonical(t, object) != full {
			t.Error("the test has not put back what it changed")
		}
		if fields < 15 && !kind.Candidate {
			t.Errorf("%s has %d fields", kind.Kind, fields)
		}
	}
}

// leaf returns another value for types that are not looked into.
func leaf(v reflect.Value) (reflect.Value, bool) {
	switch v.Interface().(type) {
	case metav1.Time:
		return reflect.ValueOf(metav1.Unix(1_900_000_000, 0)), true
	case metav1.Duration:
		return reflect.ValueOf(metav1.Duration{Duration: 77}), true
	case resource.Quantity:
		return reflect.ValueOf(resource.MustParse("77")), true
	case intstr.IntOrString:
		return reflect.ValueOf(intstr.FromInt32(77)), true
	case apiextensionsv1.JSON:
		return reflect.ValueOf(apiextensionsv1.JSON{Raw: []byte("77")}), true
	case runtime.RawExtension:
		return reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"kind":"Other"}`)}), true
	}
	switch v.Kind() {
	case reflect.String:
		return reflect.ValueOf("other").Convert(v.Type()), true
	case reflect.Bool:
		return reflect.ValueOf(!v.Bool()).Convert(v.Type()), true
	case reflect.Int32, reflect.Int64, reflect.Int:
		return reflect.ValueOf(77).Convert(v.Type()), true
	}
	return reflect.Value{}, false
}

func fill(v reflect.Value) {
	if _, ok := leaf(v); ok {
		switch v.Interface().(type) {
		case apiextensionsv1.JSON:
			v.Set(reflect.ValueOf(apiextensionsv1.JSON{Raw: []byte("1")}))
		case runtime.RawExtension:
			v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"kind":"One"}`)}))
		case metav1.Time:
			v.Set(reflect.ValueOf(metav1.Unix(1, 0)))
		case metav1.Duration:
			v.Set(reflect.ValueOf(metav1.Duration{Duration: 1}))
		}
		if v.Kind() == reflect.String {
			v.SetString("text")
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	}
}

// each changes one field after the other, calls changed, and puts it back.
func each(v reflect.Value, path string, changed func(path string)) {
	with := func(path string, value reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.Set(value)
		changed(path)
		v.Set(before)
	}
	if other, ok := leaf(v); ok {
		with(path, other)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		with(path+"=nil", reflect.Zero(v.Type()))
		each(v.Elem(), path, changed)
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, changed)
		}
	case reflect.Slice:
		with(path+"=nil", reflect.Zero(v.Type()))
		with(path+"=[]", reflect.MakeSlice(v.Type(), 0, 0))
		with(path+"=twice", reflect.AppendSlice(v, v))
		each(v.Index(0), path+"[0]", changed)
	case reflect.Map:
		with(path+"=nil", reflect.Zero(v.Type()))
		with(path+"={}", reflect.MakeMap(v.Type()))
		other := reflect.MakeMap(v.Type())
		other.SetMapIndex(reflect.ValueOf("another").Convert(v.Type().Key()), v.MapIndex(v.MapKeys()[0]))
		with(path+"=another", other)
	}
}

// FuzzCanonical sends specs through what API servers do with objects of custom resources:
// decode, encode, store, decode. What is proven when a policy is written has to be proven when
// it is loaded, by whatever client it came.
func FuzzCanonical(f *testing.F) {
	for _, spec := range []string{
		`{"effect":"Allow","subjects":[{"users":["a"]}],"rules":[{"verbs":["*"],"nonResourceURLs":["/x"]}]}`,
		`{"effect":"Deny","tier":"cluster","confirmWithin":"90m","validity":{"notAfter":"2030-01-01T00:00:00.25+01:00"}}`,
		`{"overrideRules":[{"overriders":{"plaintext":[{"path":"/x","op":"add","value":{"b":1.0,"a":[1e21,-0.0,12345678901234567890,"\u2028\ud800"]}}]}}]}`,
		`{"overrideRules":[{"overriders":{"template":{"type":"resources","resources":{"limits":{"cpu":"1000m","memory":1.5}}},"cue":"a\u003cb"}}],"resourceSelectors":[]}`,
		`{"overrideRules":[{"overriders":{"origin":[{"type":"labels","labels":{"":"x"}}]}}],"overrideRules":null}`,
	} {
		f.Add([]byte(spec))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		for _, kind := range kinds() {
			version, name := kind.ToAPIVersionAndKind()
			raw := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"p"},"spec":%s}`, version, name, spec)
			var first unstructured.Unstructured
			if err := first.UnmarshalJSON(raw); err != nil {
				continue
			}
			sent, err := first.MarshalJSON()
			if err != nil {
				continue
			}
			written, err := api.Decode(sent)
			if err != nil {
				continue
			}
			text, err := proof.Canonical(written.Object)
			if err != nil {
				t.Fatalf("%s: %v", sent, err)
			}
			for form, again := range map[string][]byte{"stored": stored(t, sent), "as the client wrote it": raw} {
				policy, err := api.Decode(again)
				if err != nil {
					// What an API server has not seen may hold what it would correct.
					if form == "as the client wrote it" {
						continue
					}
					t.Fatalf("%s: %v: %s", form, err, again)
				}
				got, err := proof.Canonical(policy.Object)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(text, got) {
					t.Fatalf("%s: %s is\n%swas\n%s", form, again, got, text)
				}
			}
		}
	})
}

// stored is an object as it comes back from storage.
func stored(t *testing.T, raw []byte) []byte {
	t.Helper()
	for range 2 {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		copied := object.DeepCopy()
		copied.Object = maps.Clone(copied.Object)
		var err error
		if raw, err = copied.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
	}
	return raw
}

// TestSuspendedByAnnotation: kinds without the field are not the same when they are suspended.
func TestSuspendedByAnnotation(t *testing.T) {
	t.Parallel()
	for value, same := range map[string]bool{"true": false, "false": true} {
		a, b := policy(t, "OverridePolicy", "{overrideRules: []}"), policy(t, "OverridePolicy", "{overrideRules: []}")
		b.SetAnnotations(map[string]string{api.AnnotationSuspend: value, "other": "x"})
		if got := proof.Same(a, b); got != same {
			t.Errorf("%s: same is %t", value, got)
		}
	}
}
