package library_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/library"
)

// bindings returns the bindings of a manifest in short.
func bindings(t *testing.T, manifest []byte) string {
	t.Helper()
	var object v1alpha1.ClusterObjectPolicy
	if err := yaml.UnmarshalStrict(manifest, &object); err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, b := range object.Spec.Bindings {
		var params map[string]any
		if b.Params != nil {
			if err := json.Unmarshal(b.Params.Raw, &params); err != nil {
				t.Fatal(err)
			}
		}
		text := []string{}
		for _, name := range slices.Sorted(maps.Keys(params)) {
			values, _ := params[name].([]any)
			items := make([]string, len(values))
			for i := range values {
				items[i] = fmt.Sprint(values[i])
			}
			text = append(text, name+": ["+strings.Join(items, ", ")+"]")
		}
		all = append(all, fmt.Sprintf("{%s %v {%s}}", b.Name, b.ValidationActions, strings.Join(text, ", ")))
	}
	return "[" + strings.Join(all, " ") + "]"
}

const (
	goodPack = `{apiVersion: usher.dev/v1alpha1, kind: PolicyPack, metadata: {name: mine}, title: Mine, description: For us., version: "1.0.0", kubernetes: ">=1.30", policies: [one]}`
	goodOne  = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: one}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: object.metadata.name != params.name}]
  bindings: [{params: {name: a}}]
`
)

// TestLoadSaysWhatIsWrong changes files of a good pack.
func TestLoadSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	pack := func(old, changed string) string { return strings.Replace(goodPack, old, changed, 1) }
	one := func(old, changed string) string { return strings.Replace(goodOne, old, changed, 1) }
	including := func(inclusion string) string {
		return strings.Replace(pack("name: mine", "name: other"), "policies: [one]", "policies: [], include: ["+inclusion+"]", 1)
	}
	for _, row := range []struct {
		reason, file, content string
		want                  string
	}{
		{"a good pack", "mine/pack.yaml", goodPack, ""},
		{"the name of the pack before that of the policy", "mine/one.yaml", one("name: one", "name: mine-one"), ""},
		{"a file beside the packs", "README.md", "x", ""},
		{"no pack.yaml", "mine/pack.yaml", "-", "mine: read pack.yaml: open pack.yaml: file does not exist"},
		{"a field that does not exist", "mine/pack.yaml", pack("title:", "titel:"), `unknown field "titel"`},
		{"another kind", "mine/pack.yaml", pack("PolicyPack", "Pack"), "expected apiVersion usher.dev/v1alpha1 and kind PolicyPack"},
		{"no name", "mine/pack.yaml", pack("name: mine", "name: My Pack"), "metadata.name: expected lower-case letters"},
		{"a version of two numbers", "mine/pack.yaml", pack("1.0.0", "1.0"), "version: expected three numbers"},
		{"versions of Kubernetes", "mine/pack.yaml", pack(">=1.30", "1.30"), "kubernetes: expected the lowest version"},
		{"no description", "mine/pack.yaml", pack("For us.", "''"), "description is missing"},
		{"no title", "mine/pack.yaml", pack("title: Mine", "title: ''"), "title is missing"},
		{"no policies", "mine/pack.yaml", pack("[one]", "[]"), "policies is empty"},
		{"a policy without a file", "mine/pack.yaml", pack("[one]", "[one, two]"), "policies: open two.yaml: file does not exist"},
		{"a path out of the pack", "mine/pack.yaml", pack("[one]", "[one, ../two]"), `policies: "../two": expected the name of a file`},
		{"a policy that is listed twice", "mine/pack.yaml", pack("[one]", "[one, one]"), "policies lists one twice"},
		{"a file that is not listed", "mine/two.yaml", goodOne, "policies does not list two, which has the file two.yaml"},
		{"cases that are not listed", "mine/cases/two.yaml", "x", "policies does not list two, which has the file cases/two.yaml"},
		{"no cases", "mine/cases/one.yaml", "-", "one has no test cases: open cases/one.yaml: file does not exist"},
		{"a field that policies do not have", "mine/one.yaml", one("validations:", "validation:"), `unknown field "validation"`},
		{"a title that clears the terminal", "mine/pack.yaml", pack("title: Mine", `title: "Mine\e[2J"`), "line 1: the character U+001B is not printed"},
		{"a description that overwrites itself", "mine/one.yaml", one("spec:", "spec:\n  description: \"denies\\rallows\""), "line 6: the character U+000D is not printed"},
		{"a message that reverses text", "mine/one.yaml", one("params.name}", "params.name, message: \"a\\u202eb\"}"), "the character U+202E is not printed"},
		{"bindings that are an alias", "mine/one.yaml", one("bindings: [{params: {name: a}}]", "bindings: [&a {params: {name: a}}, *a]"), "line 8: an alias or a merge key"},
		{"metadata in a merge key", "mine/one.yaml", one("metadata: {name: one}", "<<: {metadata: {name: one}}"), "line 4: an alias or a merge key"},
		{"an empty policy", "mine/one.yaml", "", "one.yaml: metadata is missing"},
		{"no spec", "mine/one.yaml", "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: one}}", "one.yaml: spec is missing"},
		{"an empty binding", "mine/one.yaml", one("[{params: {name: a}}]", "[null]"), "spec.bindings[0] is empty"},
		{"another kind of policy", "mine/one.yaml", one("ClusterObjectPolicy", "ObjectPolicy"), "expected one ClusterObjectPolicy"},
		{"another name than the file", "mine/one.yaml", one("name: one", "name: two"), `metadata.name: expected one or mine-one, not "two"`},
		{"a param without default", "mine/one.yaml", one("params.name", "params.names"), "params.names has no default in spec.bindings[0].params"},
		{"an optional param without default", "mine/one.yaml", one("object.metadata.name != params.name", "\"object.metadata.name != params.?names.orValue('')\""), "params.names has no default"},
		{"a default that nothing reads", "mine/one.yaml", one("{name: a}", "{name: a, other: b}"), "spec.bindings[0].params.other: no expression reads it"},
		{"bindings that differ in a param", "mine/one.yaml", one("[{params: {name: a}}]", "[{params: {name: a}}, {params: {name: b}}]"), ""},
		{"two packs of the same name", "other/pack.yaml", goodPack, "pack mine exists twice"},
		{"the policy of another pack", "other/pack.yaml", including("{pack: mine, policies: [one]}"), ""},
		{"a pack that does not exist", "other/pack.yaml", including("{pack: nine, policies: [one]}"), "pack other: include: no pack nine: did you mean mine?"},
		{"a policy that does not exist", "other/pack.yaml", including("{pack: mine, policies: [tow]}"), "pack other: include: pack mine has no file tow.yaml: there are one"},
		{"a pack that includes itself", "other/pack.yaml", including("{pack: other, policies: [one]}"), "pack other: include: a pack cannot include itself"},
		{"a pack without policies", "other/pack.yaml", including("{pack: mine}"), "pack mine: policies is empty"},
		{"a policy twice", "other/pack.yaml", including("{pack: mine, policies: [one, one]}"), "one of pack mine is in the pack twice"},
		{"a field that inclusions do not have", "other/pack.yaml", including("{pack: mine, policy: one}"), `unknown field "policy"`},
		{"a policy with the name of its pack", "mine/pack.yaml", pack("name: mine", "name: one"), "policy one of pack one has the name of a pack"},
		{"two policies of the same name", "other/pack.yaml", pack("name: mine", "name: other"), "policy one is in pack mine and in pack other"},
	} {
		files := fstest.MapFS{}
		for _, folder := range []string{"mine", "other"} {
			if folder == "other" && !strings.HasPrefix(row.file, "other/") {
				continue
			}
			files[folder+"/pack.yaml"] = &fstest.MapFile{Data: []byte(goodPack)}
			if strings.Contains(row.content, "include:") && folder == "other" {
				continue
			}
			files[folder+"/one.yaml"] = &fstest.MapFile{Data: []byte(goodOne)}
			files[folder+"/cases/one.yaml"] = &fstest.MapFile{Data: []byte("name: x")}
		}
		files[row.file] = &fstest.MapFile{Data: []byte(row.content)}
		if row.content == "-" {
			delete(files, row.file)
		}
		found, err := library.Load(files)
		if err == nil {
			_, err = library.Join(found)
		}
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.reason, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: expected %q, got %v", row.reason, row.want, err)
		}
	}
}

// TestInclude is about a policy as the pack has it that includes it.
func TestInclude(t *testing.T) {
	t.Parallel()
	const cases = `{name: ClusterObjectPolicy one, expect: {warnings: ["no (ClusterObjectPolicy one)", "one (ClusterObjectPolicy one-more)", "ClusterObjectPolicy one: one"]}}`
	files := fstest.MapFS{
		"mine/pack.yaml":      &fstest.MapFile{Data: []byte(goodPack)},
		"mine/one.yaml":       &fstest.MapFile{Data: []byte(goodOne)},
		"mine/cases/one.yaml": &fstest.MapFile{Data: []byte(cases)},
		"other/pack.yaml":     &fstest.MapFile{Data: []byte(strings.NewReplacer("name: mine", "name: other", "1.0.0", "2.0.0", "policies: [one]", "include: [{pack: mine, policies: [one], category: Ours}]").Replace(goodPack))},
	}
	found, err := library.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if found, err = library.Join(found); err != nil {
		t.Fatal(err)
	}
	chosen, err := library.Select(found, []string{"mine", "other"})
	if err != nil || len(chosen) != 2 {
		t.Fatal(chosen, err)
	}
	p := chosen[1]
	got := []string{p.Name, p.Pack, p.Version, p.Origin, p.File, p.Spec.Category}
	if diff := cmp.Diff([]string{"other-one", "other", "2.0.0", "mine", "one", "Ours"}, got); diff != "" {
		t.Error(diff)
	}
	want := strings.NewReplacer("ClusterObjectPolicy one,", "ClusterObjectPolicy other-one,", "ClusterObjectPolicy one)", "ClusterObjectPolicy other-one)", "ClusterObjectPolicy one:", "ClusterObjectPolicy other-one:").Replace(cases)
	if diff := cmp.Diff(want, string(p.Cases)); diff != "" {
		t.Error(diff)
	}
	manifest, err := p.Manifest(library.Settings{Action: "Deny"})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"  name: other-one\n", "    usher.dev/pack: other\n", "    usher.dev/pack-version: 2.0.0\n", "  category: Ours\n"} {
		if !strings.Contains(string(manifest), part) {
			t.Errorf("the manifest lacks %q:\n%s", part, manifest)
		}
	}
	if chosen[0].Name != "one" || chosen[0].Pack != "mine" || string(chosen[0].Cases) != cases {
		t.Errorf("the pack that has the file is changed: %v", chosen[0])
	}
}

func TestCheckParams(t *testing.T) {
	t.Parallel()
	p := library.Policy{Name: "p", Params: map[string]any{"list": []any{}, "number": 1.0, "text": "", "on": true, "map": map[string]any{}}}
	for _, row := range []struct {
		reason string
		values map[string]any
		want   string
	}{
		{"nothing", nil, ""},
		{"all types", map[string]any{"list": []any{"a"}, "number": 2, "text": "a", "on": false, "map": map[string]any{"a": 1}}, ""},
		{"a param that does not exist", map[string]any{"lists": []any{}}, "no param lists: there are list, map, number, on, text"},
		{"a text for a list", map[string]any{"list": "a"}, "param list: expected a list, as in list=[a], not a text"},
		{"a map for a list", map[string]any{"list": map[string]any{}}, "param list: expected a list, not a map"},
		{"a number for a text", map[string]any{"text": 1.5}, "param text: expected a text, not a number"},
		{"null", map[string]any{"map": nil}, "param map: expected a map, not a null"},
	} {
		got := ""
		if err := p.CheckParams(row.values); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: expected %q, got %q", row.reason, row.want, got)
		}
	}
	none := library.Policy{Name: "p"}
	if err := none.CheckParams(map[string]any{"a": 1}); err == nil || err.Error() != "no param a: the policy has no params" {
		t.Errorf("a policy without params: %v", err)
	}
}
