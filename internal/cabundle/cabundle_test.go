package cabundle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/cabundle"
)

// The base64 of the bundle in all tests.
const (
	bundle = "-----BEGIN-----\n"
	value  = "LS0tLS1CRUdJTi0tLS0tCg=="
)

// registration is a file with one webhook, whose clientConfig is what follows.
func registration(config string) string {
	return `# Who decides about pods.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: annotate   # shown by kubectl get

webhooks:
  - name: annotate.example.com
    clientConfig:` + config + `
    # Only pods.
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`
}

func TestPatch(t *testing.T) {
	t.Parallel()
	const service = "\n      service: {name: a, namespace: b}"
	tests := []struct {
		reason     string
		file, want string
		webhooks   int
	}{
		{reason: "none yet", file: registration(service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{
			reason: "comments stay with what they are about", webhooks: 1,
			file: registration(" # how\n\n      # where\n      url: https://a # b\n      "),
			want: registration(" # how\n      caBundle: " + value + "\n\n      # where\n      url: https://a # b\n      "),
		},
		{
			reason: "another one", webhooks: 1,
			file: registration("\n      caBundle: Cg== # of yesterday\n      url: https://a"),
			want: registration("\n      caBundle: " + value + " # of yesterday\n      url: https://a"),
		},
		{reason: "the same", file: registration("\n      caBundle: " + value + service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{reason: "an empty one", file: registration("\n      caBundle:" + service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{reason: "an empty one with a comment", file: registration("\n      caBundle: # later" + service), want: registration("\n      caBundle: " + value + " # later" + service), webhooks: 1},
		{reason: "null", file: registration("\n      caBundle: null" + service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{reason: "quoted", file: registration("\n      caBundle: \"\"  # c" + service), want: registration("\n      caBundle: \"" + value + "\"  # c" + service), webhooks: 1},
		{reason: "quoted in the other way", file: registration("\n      caBundle: 'it''s'" + service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{reason: "quoted over lines", file: registration("\n      caBundle: \"a\n        \\\"b\"" + service), want: registration("\n      caBundle: \"" + value + "\"" + service), webhooks: 1},
		{reason: "a block", file: registration("\n      caBundle: |\n        a\n\n        b\n" + service), want: registration("\n      caBundle: " + value + "\n" + service), webhooks: 1},
		{reason: "a folded block at the end", file: registration(service + "\n      caBundle: >-\n        a\n        b"), want: registration(service + "\n      caBundle: " + value), webhooks: 1},
		{reason: "lines without quotes", file: registration("\n      caBundle: a\n        b\n        c" + service), want: registration("\n      caBundle: " + value + service), webhooks: 1},
		{reason: "in braces", file: registration(" {url: 'https://a'}"), want: registration(" {caBundle: " + value + ", url: 'https://a'}"), webhooks: 1},
		{reason: "in braces, with another one", file: registration(" {url: 'https://a', caBundle: Cg== }"), want: registration(" {url: 'https://a', caBundle: " + value + " }"), webhooks: 1},
		{reason: "in braces, with an empty one", file: registration(" {caBundle: '', url: 'https://a'}"), want: registration(" {caBundle: " + value + ", url: 'https://a'}"), webhooks: 1},
		{
			reason: "JSON", webhooks: 2,
			file: `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
 "webhooks": [{"clientConfig": {"url": "https://a"}}, {"clientConfig": {"caBundle": "Cg==", "url": "https://a"}}]}]}`,
			want: `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
 "webhooks": [{"clientConfig": {"caBundle": "` + value + `", "url": "https://a"}}, {"clientConfig": {"caBundle": "` + value + `", "url": "https://a"}}]}]}`,
		},
		{
			reason: "a conversion webhook, and a definition without one", webhooks: 1,
			file: crd("{strategy: None}") + "---\n" + crd("\n    strategy: Webhook\n    webhook:\n      conversionReviewVersions: [v1]\n      clientConfig:\n        service: {name: é, namespace: b}"),
			want: crd("{strategy: None}") + "---\n" + crd("\n    strategy: Webhook\n    webhook:\n      conversionReviewVersions: [v1]\n      clientConfig:\n        caBundle: "+value+"\n        service: {name: é, namespace: b}"),
		},
		{
			reason: "several documents, and what is none of our business", webhooks: 2,
			file: "# a\n---\nkind: Secret\napiVersion: v1\nwebhooks: [{clientConfig: {url: x}}]\n--- # b\n" + registration(service) + "...\n---\n" + registration(" {url: é}"),
			want: "# a\n---\nkind: Secret\napiVersion: v1\nwebhooks: [{clientConfig: {url: x}}]\n--- # b\n" + registration("\n      caBundle: "+value+service) + "...\n---\n" + registration(" {caBundle: "+value+", url: é}"),
		},
		{
			reason: "a clientConfig that webhooks share", webhooks: 2,
			file: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nwebhooks:\n- name: a\n  clientConfig: &c\n    url: https://a\n- {name: b, clientConfig: *c}\n",
			want: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nwebhooks:\n- name: a\n  clientConfig: &c\n    caBundle: " + value + "\n    url: https://a\n- {name: b, clientConfig: *c}\n",
		},
		{
			reason: "lines that end in two characters", webhooks: 1,
			file: strings.ReplaceAll(registration(service), "\n", "\r\n"),
			want: strings.ReplaceAll(registration("\n      caBundle: "+value+service), "\n", "\r\n"),
		},
	}
	for _, test := range tests {
		got, webhooks, err := cabundle.Patch([]byte(test.file), []byte(bundle))
		if err != nil || webhooks != test.webhooks {
			t.Errorf("%s: %d webhooks, %v", test.reason, webhooks, err)
			continue
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
		again, _, err := cabundle.Patch(got, []byte(bundle))
		if diff := cmp.Diff(string(got), string(again)); err != nil || diff != "" {
			t.Errorf("%s: the second time: %v: -want +got:\n%s", test.reason, err, diff)
		}
	}
}

func crd(conversion string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  conversion: " + conversion + "\n  group: g\n"
}

func TestPatchRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ reason, file, want string }{
		{"no YAML", "a: b: c", "decode YAML: yaml: mapping values are not allowed in this context"},
		{"a template", registration(" {{ .Values.clientConfig }}"), "decode YAML: "},
		{"nothing of ours", "kind: Pod\napiVersion: v1\n", cabundle.ErrNoWebhook.Error()},
		{"nothing", "", cabundle.ErrNoWebhook.Error()},
		{"a registration without webhooks", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n", cabundle.ErrNoWebhook.Error()},
		{"no clientConfig", strings.ReplaceAll(registration(" {url: a}"), "clientConfig", "config"), "line 8: the webhook has no clientConfig with a url or a service"},
		{"an empty clientConfig", registration(" {}"), "line 8: the webhook has no clientConfig with a url or a service"},
		{"a bundle by name", registration(" {url: &u a, caBundle: *u}"), "line 9: caBundle is shared by name: write the value itself, or nothing"},
		{"a bundle that has a name", registration(" {caBundle: &u a, url: *u}"), "line 9: caBundle is shared by name: write the value itself, or nothing"},
		{
			"a map as only machines write it", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nwebhooks:\n- ? clientConfig\n  : url: a\n    b: c\n",
			"it is written in a way that cannot be patched: set each caBundle to the base64 of the CA yourself",
		},
		{"something that contains itself", "&a\nkind: List\napiVersion: v1\nitems: [*a]\n", "decode YAML: yaml: anchor 'a' value contains itself"},
		{"something that says a thing twice", "kind: Pod\nkind: Pod\n", "decode YAML: "},
	}
	for _, test := range tests {
		_, _, err := cabundle.Patch([]byte(test.file), []byte(bundle))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.reason, err, test.want)
		}
	}
	if _, _, err := cabundle.Patch(nil, nil); !errors.Is(err, cabundle.ErrNoWebhook) {
		t.Errorf("got %v", err)
	}
}

// FuzzPatch checks that a file is either refused or says the same as before, but for the
// bundle, and that once it is patched there is nothing more to do.
func FuzzPatch(f *testing.F) {
	for _, config := range []string{" {url: a}", "\n      url: a", "\n      caBundle: |\n        a\n      url: b", " {\"caBundle\": 'a', x: 1}", "\n      ? caBundle\n      : x"} {
		f.Add([]byte(registration(config)))
	}
	f.Add([]byte(crd("\n    webhook:\n      clientConfig: {url: a}")))
	f.Fuzz(func(t *testing.T, file []byte) {
		patched, webhooks, err := cabundle.Patch(file, []byte(bundle))
		if err != nil {
			return
		}
		if strings.Count(string(patched), value) == 0 {
			t.Errorf("%d webhooks, and no bundle in %q", webhooks, patched)
		}
		again, count, err := cabundle.Patch(patched, []byte(bundle))
		if err != nil || count != webhooks || string(again) != string(patched) {
			t.Errorf("the second time: %d webhooks, %v\n%q\n%q", count, err, patched, again)
		}
	})
}
