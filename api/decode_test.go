package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

const clusterOverride = `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy",` +
	`"metadata":{"name":"p"},"spec":{"overrideRules":[{"overriders":{%s}}]}}`

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason    string
		overrider string
		unknown   []string
		duplicate []string
	}{
		{reason: "every field is known", overrider: `"plaintext":[{"op":"add","path":"/a","value":1}]`},
		{
			reason:    "the path of an unknown field goes through lists",
			overrider: `"plaintext":[{"op":"add","path":"/a"},{"op":"add","path":"/a","valeu":1}]`,
			unknown:   []string{"spec.overrideRules[0].overriders.plaintext[1].valeu"},
		},
		{
			reason:    "names are case-sensitive, as in the API server",
			overrider: `"Cue":"x: 1"`,
			unknown:   []string{"spec.overrideRules[0].overriders.Cue"},
		},
		{
			reason:    "unknown fields are sorted, whatever their order in the file",
			overrider: `"z":1,"a":2`,
			unknown:   []string{"spec.overrideRules[0].overriders.a", "spec.overrideRules[0].overriders.z"},
		},
		{
			reason:    "a field that is written twice is known",
			overrider: `"cue":"a: 1","cue":"b: 1"`,
			duplicate: []string{"spec.overrideRules[0].overriders.cue"},
		},
		{
			reason:    "a plaintext value may have any fields",
			overrider: `"plaintext":[{"op":"add","path":"/a","value":{"any":{"thing":[1,"x"]}}}]`,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			policy, err := api.Decode(fmt.Appendf(nil, clusterOverride, test.overrider))
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := policy.Object.(*v1alpha1.ClusterOverridePolicy); !ok || policy.Object.GetName() != "p" {
				t.Errorf("decoded %T %q, want the ClusterOverridePolicy p", policy.Object, policy.Object.GetName())
			}
			if diff := cmp.Diff(test.unknown, policy.Unknown); diff != "" {
				t.Errorf("unknown fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.duplicate, policy.Duplicate); diff != "" {
				t.Errorf("duplicate fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, raw, want string
		unknownKind       bool
	}{
		{reason: "nothing", raw: ``, want: "decode policy: "},
		{reason: "not JSON", raw: `{`, want: "decode policy: "},
		{reason: "no object", raw: `[]`, want: "decode policy: "},
		{reason: "no kind", raw: `{"apiVersion":"v1"}`, want: "apiVersion or kind is missing", unknownKind: true},
		{reason: "null", raw: `null`, want: "apiVersion or kind is missing", unknownKind: true},
		{
			reason: "another kind", raw: `{"apiVersion":"v1","kind":"Pod"}`,
			want: "decode v1 Pod: not a policy kind", unknownKind: true,
		},
		{
			reason: "another version of the group", raw: `{"apiVersion":"policy.kcloudlabs.io/v1","kind":"OverridePolicy"}`,
			want: "decode policy.kcloudlabs.io/v1 OverridePolicy: not a policy kind", unknownKind: true,
		},
		{
			reason: "a field of the wrong type is named",
			raw:    `{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"OverridePolicy","spec":{"overrideRules":"all"}}`,
			want:   "spec.overrideRules is text, and has to be a list",
		},
		{
			reason: "embedded structs of the code are not named",
			raw:    `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","spec":{"validations":[{"message":"a"},{"message":true}]}}`,
			want:   "decode ClusterObjectPolicy: spec.validations[1].message is true or false, and has to be text; write it in quotes",
		},
		{
			reason: "what is not a time", raw: `{"apiVersion":"usher.dev/v1alpha1","kind":"PolicyExemption","spec":{"expiresAt":"tomorrow"}}`,
			want: `decode PolicyExemption: spec.expiresAt: "tomorrow" is not a time: write one such as 2030-01-31T12:00:00Z`,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, err := api.Decode([]byte(test.raw))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one that contains %q", err, test.want)
			}
			if errors.Is(err, api.ErrUnknownKind) != test.unknownKind {
				t.Errorf("error %v: is ErrUnknownKind: %t, want %t", err, !test.unknownKind, test.unknownKind)
			}
		})
	}
}

func TestDecodePassesOverTheStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, status string }{
		{"as Usher writes it", `{"observedGeneration":2,"conditions":[{"type":"Compiled","status":"True",` +
			`"reason":"Compiled","message":"","lastTransitionTime":"2026-01-02T03:04:05Z","observedGeneration":2}]}`},
		{"as another version writes it", `{"phase":"Ready"}`},
		{"of the wrong type", `"fine"`},
		{"a condition of the wrong type", `{"conditions":[{"lastTransitionTime":"yesterday"}]}`},
		{"nothing", `null`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			raw := fmt.Appendf(nil, clusterOverride, `"cue":"x: 1","cude":""`)
			raw = append(raw[:len(raw)-1], fmt.Sprintf(`,"status":%s}`, test.status)...)
			policy, err := api.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"spec.overrideRules[0].overriders.cude"}, policy.Unknown); diff != "" {
				t.Errorf("unknown fields (-want +got):\n%s", diff)
			}
			if spec := api.Spec(policy.Object).(*v1alpha1.OverridePolicySpec); spec.OverrideRules[0].Overriders.Cue != "x: 1" {
				t.Errorf("spec is %+v", spec)
			}
		})
	}
}

func TestIsPolicy(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"OverridePolicy", "ClusterOverridePolicy", "ClusterValidatePolicy"} {
		gvk := schema.GroupVersionKind{Group: "policy.kcloudlabs.io", Version: "v1alpha1", Kind: kind}
		if !api.IsPolicy(gvk) {
			t.Errorf("%s is no policy kind", gvk)
		}
		if gvk.Group = "other.io"; api.IsPolicy(gvk) {
			t.Errorf("%s is a policy kind", gvk)
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	var nowhere api.Policy
	if got := nowhere.Position("spec"); got != (api.Position{}) {
		t.Errorf("a policy that is in no file is at %v", got)
	}
	located := api.Policy{Locate: func(field string, _, _ int) api.Position { return api.Position{File: field, Line: 3} }}
	if got, want := located.Position("spec"), (api.Position{File: "spec", Line: 3}); got != want {
		t.Errorf("position %v, want %v", got, want)
	}
}

func BenchmarkDecode(b *testing.B) {
	raw := fmt.Appendf(nil, clusterOverride, `"plaintext":[{"op":"add","path":"/metadata/labels/a","value":"1"}]`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := api.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
