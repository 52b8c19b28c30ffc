package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// policy is a policy of a kind, in flow style so that it fits on a line.
func policy(kind, name string) string {
	return "{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: " + kind + ", metadata: {name: " + name + "}, spec: {}}\n"
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// summary is a set as lines, without the folder: policies by file, line and name, then
// what is unreadable.
func summary(set source.Set, folder string) []string {
	var lines []string
	for _, p := range set.Policies {
		at := p.Position("")
		id := p.Object.GetName()
		if ns := p.Object.GetNamespace(); ns != "" {
			id = ns + "/" + id
		}
		lines = append(lines, source.Unreadable{Position: at, Err: errorText(id)}.String())
	}
	for _, u := range set.Unreadable {
		lines = append(lines, "! "+u.String())
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], folder+string(filepath.Separator), "")
	}
	return lines
}

type errorText string

func (e errorText) Error() string { return string(e) }

func TestLoad(t *testing.T) {
	t.Parallel()
	const kinds = "; there are policy.kcloudlabs.io/v1alpha1 ClusterOverridePolicy, policy.kcloudlabs.io/v1alpha1 ClusterValidatePolicy, " +
		"policy.kcloudlabs.io/v1alpha1 OverridePolicy, usher.dev/v1alpha1 AuthorizationPolicy, usher.dev/v1alpha1 ClusterAuthorizationPolicy, usher.dev/v1alpha1 ClusterObjectPolicy, usher.dev/v1alpha1 ClusterPolicyCandidate, usher.dev/v1alpha1 ClusterPolicyExemption, usher.dev/v1alpha1 ObjectPolicy, usher.dev/v1alpha1 PolicyCandidate, usher.dev/v1alpha1 PolicyExemption"
	const cop, cvp, op = "ClusterOverridePolicy", "ClusterValidatePolicy", "OverridePolicy"
	tests := []struct {
		reason string
		files  map[string]string
		want   []string
	}{
		{
			reason: "an empty folder has no policies and nothing is wrong with it",
		},
		{
			reason: "files are read in order of their names, folders below among them, whatever the policies are called",
			files:  map[string]string{"b.yml": policy(cop, "one"), "a/z.yaml": policy(cvp, "two"), "c.json": strings.ReplaceAll(`{"apiVersion":"policy.kcloudlabs.io/v1alpha1","kind":"ClusterOverridePolicy","metadata":{"name":"three"}}`, ",", ",\n\t")},
			want:   []string{"a/z.yaml:1: two", "b.yml:1: one", "c.json:1: three"},
		},
		{
			reason: "other names, and hidden files and folders, are not for us",
			files:  map[string]string{"README.md": "# : [", ".a.yaml": policy(cop, "one"), ".git/b.yaml": policy(cop, "two"), "a.yaml~": policy(cop, "three")},
		},
		{
			reason: "a file may hold many documents, with comments and empty ones between",
			files: map[string]string{"a.yaml": "# first\n---\n# the one\n" + policy(cop, "one") + "---\n\n---\n" + policy(cop, "two") +
				"...\n# end\n" + policy(cop, "three") + "--- # what follows is inline\n---  " + policy(cop, "four")},
			want: []string{"a.yaml:4: one", "a.yaml:8: two", "a.yaml:11: three", "a.yaml:13: four"},
		},
		{
			reason: "Windows line ends, a byte order mark and directives make no difference",
			files:  map[string]string{"a.yaml": "\ufeff%YAML 1.1\r\n---\r\n" + strings.ReplaceAll(policy(cop, "one")+"---\n"+policy(cop, "two"), "\n", "\r\n")},
			want:   []string{"a.yaml:3: one", "a.yaml:5: two"},
		},
		{
			reason: "lists are opened, those of kubectl and those of a kind, and lists in lists",
			files: map[string]string{
				"a.yaml": "apiVersion: v1\nkind: List\nitems:\n- " + policy(cop, "one") + "- " + policy(cvp, "two"),
				"b.yaml": "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicyList\nitems:\n- " + policy(cop, "three"),
				"c.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - " + policy(cop, "four"),
			},
			want: []string{"a.yaml:4: one", "a.yaml:5: two", "b.yaml:4: three", "c.yaml:7: four"},
		},
		{
			reason: "objects of other groups, test cases and what is no object are left alone",
			files: map[string]string{
				"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\nname: case\npolicies: [" + strings.TrimSpace(policy(cop, "one")) + "]\n---\njust text\n---\n- 1\n",
				"b.yaml": "apiVersion: v1\nkind: PodList\nitems: []\n---\n{apiVersion: v1, apiVersion: v1, kind: Pod}\n",
				"c.json": "[1, 2] 3 null",
			},
		},
		{
			reason: "an object of our groups that is not known is not left alone",
			files: map[string]string{"a.yaml": "apiVersion: policy.kcloudlabs.io/v1\nkind: ClusterOverridePolicy\n---\n" +
				"apiVersion: policy.kcloudlabs.io/v1alpha1\nmetadata: {name: x}\nkind: ClusterPolicy\n---\n{apiVersion: usher.dev/v9, kind: Future}\n"},
			want: []string{
				"! a.yaml:2: decode policy.kcloudlabs.io/v1 ClusterOverridePolicy: not a policy kind; the versions of ClusterOverridePolicy are: policy.kcloudlabs.io/v1alpha1",
				"! a.yaml:6: decode policy.kcloudlabs.io/v1alpha1 ClusterPolicy: not a policy kind" + kinds,
				"! a.yaml:8: decode usher.dev/v9 Future: not a policy kind" + kinds,
			},
		},
		{
			reason: "a kind that is misspelled, or of the other group, gets a suggestion",
			files: map[string]string{"a.yaml": "{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolciy}\n---\n{apiVersion: usher.dev/v1, kind: objectpolicy}\n---\n" +
				"{apiVersion: usher.dev/v1alpha1, kind: OverridePolicy}\n"},
			want: []string{
				"! a.yaml:1: decode usher.dev/v1alpha1 ClusterObjectPolciy: not a policy kind; did you mean usher.dev/v1alpha1 ClusterObjectPolicy?",
				"! a.yaml:3: decode usher.dev/v1 objectpolicy: not a policy kind; did you mean usher.dev/v1alpha1 ObjectPolicy?",
				"! a.yaml:5: decode usher.dev/v1alpha1 OverridePolicy: not a policy kind; did you mean policy.kcloudlabs.io/v1alpha1 OverridePolicy?",
			},
		},
		{
			reason: "policies of other engines are called what they are; their reports are objects like others",
			files: map[string]string{"a.yaml": "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: one}\n---\n" +
				"{apiVersion: v1, kind: List, items: [{apiVersion: policies.kyverno.io/v1alpha1, kind: ValidatingPolicy, metadata: {name: two}}]}\n---\n" +
				"{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: three}}\n---\n" +
				"{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sRequiredLabels, metadata: {name: four}}\n---\n" +
				"{apiVersion: kyverno.io/v1, kind: UpdateRequest}\n---\n{apiVersion: status.gatekeeper.sh/v1beta1, kind: ConstraintPodStatus}\n"},
			want: []string{
				"! a.yaml:2: ClusterPolicy one: this is a policy of Kyverno, which Usher does not enforce",
				"! a.yaml:5: ValidatingPolicy two: this is a policy of Kyverno, which Usher does not enforce",
				"! a.yaml:7: ConstraintTemplate three: this is a policy of Gatekeeper, which Usher does not enforce",
				"! a.yaml:9: K8sRequiredLabels four: this is a policy of Gatekeeper, which Usher does not enforce",
			},
		},
		{
			reason: "an admission policy of Kubernetes that Usher does not support is not left alone, and does not hide the others",
			files: map[string]string{
				"a.yaml": "# labels\napiVersion: admissionregistration.k8s.io/v2\nkind: MutatingAdmissionPolicy\nmetadata: {name: labels}\n---\n" + policy(cop, "one"),
				"b.yaml": "{apiVersion: admissionregistration.k8s.io/v2beta1, kind: MutatingAdmissionPolicyBindingList, items: [{metadata: {name: labels}}]}\n---\n" +
					"{apiVersion: admissionregistration.k8s.io/v9, kind: ValidatingAdmissionPolicy, metadata: {name: new}}\n",
				"c.yaml": "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x}}\n",
			},
			want: []string{
				"a.yaml:6: one",
				"! a.yaml:3: MutatingAdmissionPolicy labels: Usher does not support admissionregistration.k8s.io/v2 MutatingAdmissionPolicy yet, and does not enforce this object",
				"! b.yaml:1: MutatingAdmissionPolicyBinding labels: Usher does not support admissionregistration.k8s.io/v2beta1 MutatingAdmissionPolicyBinding yet, and does not enforce this object",
				"! b.yaml:3: ValidatingAdmissionPolicy new: Usher does not support admissionregistration.k8s.io/v9 ValidatingAdmissionPolicy yet, and does not enforce this object",
			},
		},
		{
			reason: "a policy whose author forgot the apiVersion is pointed out",
			files:  map[string]string{"a.yaml": "metadata: {name: x}\nkind: ClusterOverridePolicy\n"},
			want:   []string{"! a.yaml:2: ClusterOverridePolicy: apiVersion is missing, it should be policy.kcloudlabs.io/v1alpha1"},
		},
		{
			reason: "a policy needs a name, and a namespace if it has one",
			files: map[string]string{"a.yaml": "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {}\n---\n" +
				policy(op, "one") + "---\n" + policy(op, "{name: two, namespace: shop}")},
			want: []string{
				"! a.yaml:3: ClusterOverridePolicy: metadata.name is missing",
				"! a.yaml:5: OverridePolicy one: metadata.namespace is missing, the policy is for objects of one namespace: write it into the file, although kubectl -n would set it",
				"! a.yaml:7: decode OverridePolicy: metadata.name is a map, and has to be text",
			},
		},
		{
			reason: "one broken document does not hide the others, and its line is that of the file",
			files:  map[string]string{"a.yaml": policy(cop, "one") + "---\nkind: a: b\n---\n" + policy(cop, "two") + "---\nx:\n  - a\n b\n"},
			want: []string{
				"a.yaml:1: one", "a.yaml:5: two",
				"! a.yaml:3: parse YAML: mapping values are not allowed in this context",
				"! a.yaml:9: parse YAML: did not find expected key",
			},
		},
		{
			reason: "an expression that begins with a quote",
			files:  map[string]string{"a.yaml": "a:\n- expression: 'team' in object.metadata.labels\n---\nb: 'x'\nc: [\n"},
			want: []string{
				"! a.yaml:2: parse YAML: did not find expected key; a value that begins with a quote ends with the next one: write |- after the colon, and the whole text on a line of its own below",
				"! a.yaml:6: parse YAML: did not find expected node content",
			},
		},
		{
			reason: "a Helm template",
			files:  map[string]string{"a.yaml": "a: {{ .Values.a }}\n---\na: {{ request.object }}\n"},
			want: []string{
				"! a.yaml:1: parse YAML: invalid map key: map[interface {}]interface {}{\".Values.a\":interface {}(nil)}; this is a Helm template, render it first: helm template CHART -n NAMESPACE; commands read the output in place of the file if that is -",
				"! a.yaml:2: parse YAML: invalid map key: map[interface {}]interface {}{\"request.object\":interface {}(nil)}",
			},
		},
		{
			reason: "what follows a value without a marker is not left unread",
			files: map[string]string{
				"a.yaml": policy(cop, "one") + "---\n# first\n{\"kind\": \"x\"}\n{\"kind\": \"y\"}\n",
				"b.yaml": "{apiVersion: v1, kind: Pod}\nkind: x\n---\n{apiVersion: v1} # no more\n",
			},
			want: []string{
				"a.yaml:1: one",
				"! a.yaml:4: parse YAML: more follows after the closing }; put --- between objects",
				"! b.yaml:1: parse YAML: more follows after the closing }; put --- between objects",
			},
		},
		{
			reason: "JSON files hold one value after the other, up to the first error",
			files:  map[string]string{"a.json": "\n{\"apiVersion\": \"policy.kcloudlabs.io/v1alpha1\",\n\"kind\": \"ClusterOverridePolicy\", \"metadata\": {\"name\": \"one\"}}\n{\"a\": 1,\n}\n", "b.json": "{\n\"a\":\n"},
			want: []string{
				"a.json:2: one",
				"! a.json:5: parse JSON: invalid character '}' looking for beginning of object key string",
				"! b.json:2: parse JSON: unexpected EOF",
			},
		},
		{
			reason: "of two policies with the same identity the first counts, and the error names both places; other kinds and namespaces are no concern",
			files: map[string]string{
				"a.yaml": policy(cop, "x") + "---\n" + policy(cvp, "x"),
				"b.yaml": "\n" + policy(cop, "x"),
				"c.yaml": policy(op, "x, namespace: one") + "---\n" + policy(op, "x, namespace: two") + "---\n" + policy(op, "x, namespace: one"),
			},
			want: []string{
				"a.yaml:1: x", "a.yaml:3: x", "c.yaml:1: one/x", "c.yaml:3: two/x",
				"! b.yaml:2: ClusterOverridePolicy x: defined twice, here and at a.yaml:1",
				"! c.yaml:5: OverridePolicy one/x: defined twice, here and at c.yaml:1",
			},
		},
		{
			reason: "a cluster-scoped policy has no namespace, whatever is written",
			files:  map[string]string{"a.yaml": policy(cop, "x, namespace: one")},
			want:   []string{"a.yaml:1: x"},
		},
		{
			reason: "a value of the wrong type is said in words of the author, at its place",
			files: map[string]string{"a.yaml": "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata:\n  name: x\n  labels:\n    on: yes\n---\n" +
				"apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: x}\nspec:\n  overrideRules: 1\n---\n" +
				"apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nmetadata: {name: x, namespace: shop}\nspec:\n  validations:\n  - expression: \"true\"\n  - expression: \"true\"\n    message: no\n"},
			want: []string{
				"! a.yaml:5: decode ClusterOverridePolicy: metadata.labels is true or false, and has to be text; write it in quotes",
				"! a.yaml:12: decode ClusterOverridePolicy: spec.overrideRules is a number, and has to be a list; write [ ] around it",
				"! a.yaml:21: decode ObjectPolicy: spec.validations[1].message is true or false, and has to be text; write it in quotes",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			write(t, folder, test.files)
			set, err := dir.Load(folder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, summary(set, folder)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLoadMissingPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nowhere")
	_, err := dir.Load(t.TempDir(), path)
	if want := "read policies: stat " + path + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadReadsEachFileOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{
		"one.txt":                policy("ClusterOverridePolicy", "named"),
		"real/a.yaml":            policy("ClusterOverridePolicy", "one"),
		"mount/..2026/site.yaml": policy("ClusterOverridePolicy", "mounted"),
	})
	links := map[string]string{
		"again":           "real",
		"real/loop":       "..",
		"z.yaml":          "real/a.yaml",
		"dangling.yaml":   "gone.yaml",
		"dangling.txt":    "gone.txt",
		"mount/..data":    "..2026",
		"mount/site.yaml": "..data/site.yaml",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	set, err := dir.Load(folder, filepath.Join(folder, "real", "a.yaml"), filepath.Join(folder, "one.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"again/a.yaml:1: one", "mount/site.yaml:1: mounted", "one.txt:1: named",
		"! dangling.yaml: follow symbolic link: no such file or directory",
	}
	if diff := cmp.Diff(want, summary(set, folder)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadConvertsLikeKubectl(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{"a.yaml": `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: &meta
  name: x
spec:
  overrideRules:
  - overriders:
      plaintext:
      - {path: /a, op: add, value: yes}
      - {path: /a, op: add, value: 0x10}
      - {path: /a, op: add, value: 9007199254740993}
      - {path: /a, op: add, value: "yes"}
      - {path: /a, op: add, value: 1.50}
      - {path: /a, op: add, value: *meta}
      - {path: /a, op: add, value: ~}
`})
	set, err := dir.Load(folder)
	if err != nil || len(set.Policies) != 1 {
		t.Fatalf("got %v, %v", set, err)
	}
	var values []string
	for _, p := range set.Policies[0].Object.(*v1alpha1.ClusterOverridePolicy).Spec.OverrideRules[0].Overriders.Plaintext {
		value := "none"
		if p.Value != nil {
			value = string(p.Value.Raw)
		}
		values = append(values, value)
	}
	want := []string{"true", "16", "9007199254740993", `"yes"`, "1.5", `{"name":"x"}`, "none"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadStrangeFields(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{"a.yaml": `
apiVersion: v1
kind: List
items:
- apiVersion: policy.kcloudlabs.io/v1alpha1
  kind: ClusterOverridePolicy
  metadata: {name: x}
  spec:
    overrideRule: []
    overrideRules:
    - overriders: {cue: "1", cue: "2"}
`})
	set, err := dir.Load(folder)
	if err != nil || len(set.Policies) != 1 {
		t.Fatalf("got %v, %v", set, err)
	}
	p := set.Policies[0]
	if diff := cmp.Diff([]string{"spec.overrideRule"}, p.Unknown); diff != "" {
		t.Errorf("unknown: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"spec.overrideRules[0].overriders.cue"}, p.Duplicate); diff != "" {
		t.Errorf("duplicate: -want +got:\n%s", diff)
	}
	if got := p.Object.(*v1alpha1.ClusterOverridePolicy).Spec.OverrideRules[0].Overriders.Cue; got != "2" {
		t.Errorf("cue is %q: the last of two counts", got)
	}
}

func TestLoadLimitsFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	const list = `{"apiVersion": "v1", "kind": "List", "items": [`
	write(t, folder, map[string]string{
		"a.yaml": "", "b.yaml": strings.Repeat("---\na: b\n", 100_001), "c.json": strings.Repeat("{}\n", 100_001),
		"d.json": strings.Repeat(list, 4000) + strings.Repeat("]}", 4000), "e.json": strings.Repeat(list, 8) + strings.Repeat("]}", 8),
	})
	if err := os.Truncate(path, 16<<20+1); err != nil {
		t.Fatal(err)
	}
	set, err := dir.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"! a.yaml: read: file is larger than 16 MiB",
		"! b.yaml: read policies: file has 100001 documents, more than 100000: make several files of it",
		"! c.json: read policies: file has more than 100000 documents: make several files of it",
		"! d.json:1: read policies: more than 8 lists are in one another",
	}
	if diff := cmp.Diff(want, summary(set, folder)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLoadKeepsOrder: documents are parsed at the same time, and stay in their order.
func TestLoadKeepsOrder(t *testing.T) {
	t.Parallel()
	const many = 1000
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, "---\napiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterOverridePolicy\nmetadata: {name: p%d}\n", i)
	}
	set := dir.Parse("a.yaml", []byte(text.String()))
	if len(set.Policies) != many {
		t.Fatalf("%d policies, want %d: %v", len(set.Policies), many, set.Unreadable)
	}
	for i, p := range set.Policies {
		if want := fmt.Sprintf("p%d", i); p.Object.GetName() != want || p.Position("").Line != 4*i+2 {
			t.Fatalf("policy %d is %s at line %d, want %s at line %d", i, p.Object.GetName(), p.Position("").Line, want, 4*i+2)
		}
	}
}
