package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestRightsAreNarrow(t *testing.T) {
	t.Parallel()
	// Users with these rights can give themselves every right.
	dangerous := []string{"*", "escalate", "bind", "impersonate", "deletecollection"}
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			objects := r.objects(t)
			var rules []rbacv1.PolicyRule
			for _, role := range only[*rbacv1.ClusterRole](objects) {
				rules = append(rules, role.Rules...)
				for _, rule := range role.Rules {
					if len(rule.NonResourceURLs) > 0 {
						continue
					}
					if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "leases") {
						t.Errorf("%v reaches beyond the namespace", rule)
					}
					if writes(rule) && len(rule.ResourceNames) == 0 && !strings.HasSuffix(rule.Resources[0], "/status") {
						t.Errorf("%v may write whatever is not Usher's", rule)
					}
				}
			}
			for _, role := range only[*rbacv1.Role](objects) {
				rules = append(rules, role.Rules...)
				for _, rule := range role.Rules {
					reads := len(rule.ResourceNames) == 0 && !cmp.Equal(rule.Verbs, []string{"create"})
					if slices.Contains(rule.Resources, "secrets") && reads {
						t.Errorf("%v reads secrets that are not Usher's", rule)
					}
				}
			}
			for _, rule := range rules {
				if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources), "*") {
					t.Errorf("%v is for everything", rule)
				}
				for _, path := range rule.NonResourceURLs {
					if path != "/metrics" && path != "/readyz/verbose" || !slices.Equal(rule.Verbs, []string{"get"}) {
						t.Errorf("%v is for other paths than those of Usher", rule)
					}
				}
				for _, verb := range rule.Verbs {
					if slices.Contains(dangerous, verb) {
						t.Errorf("%v may %s", rule, verb)
					}
				}
			}
		})
	}
}

// writes reports whether a rule lets objects be written. A review is a question, and nothing is
// stored; an event is a message that nothing depends on, if it cannot be deleted.
func writes(rule rbacv1.PolicyRule) bool {
	for _, harmless := range []string{"subjectaccessreviews", "tokenreviews"} {
		if slices.Equal(rule.Resources, []string{harmless}) {
			return false
		}
	}
	// Nothing is decided by reports, which are in all namespaces.
	if slices.Equal(rule.APIGroups, []string{"openreports.io"}) {
		return false
	}
	if slices.Equal(rule.Resources, []string{"events"}) && slices.Equal(rule.Verbs, []string{"create", "patch"}) {
		return false
	}
	return slices.ContainsFunc(rule.Verbs, func(verb string) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, verb)
	})
}

// Without registrations, facts and a Secret of its own, Usher needs no rights on them.
func TestRightsFollowTheValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		set, group, resource string
		reason               string
	}{
		{"webhookConfiguration.enabled=false", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "somebody else registers"},
		{"facts.owners=false", "apps", "replicasets", "no policy asks for owners"},
	}
	for _, test := range tests {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			if !allowed(renderings[0].objects(t), test.group, test.resource) {
				t.Errorf("no rights on %s by default", test.resource)
			}
			if without := (&rendering{args: []string{"--set", test.set}}); allowed(without.objects(t), test.group, test.resource) {
				t.Errorf("rights on %s with %s: %s", test.resource, test.set, test.reason)
			}
		})
	}
}

// Replicas read and change the Secrets that they share, and delete none: their certificate, the
// keys of webhook paths, and those of policy proofs. The Job that uninstalls deletes the
// keys of paths, and leaves those of proofs.
func TestSecretsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  string
		want []string
	}{
		{"", []string{"usher-cert", "usher-paths", "usher-proofs"}},
		{"certificate.existingSecret=tls", []string{"usher-paths", "usher-proofs"}},
		{"webhookConfiguration.enabled=false", []string{"usher-cert", "usher-proofs"}},
		{"certificate.existingSecret=tls,webhookConfiguration.enabled=false", []string{"usher-proofs"}},
		{"webhookConfiguration.pathSecret=keys", []string{"usher-cert", "keys", "usher-proofs"}},
		{"webhookConfiguration.pathSecret=keys", []string{"usher-cert", "keys", "usher-proofs"}},
		{"proofs.secret=keys", []string{"usher-cert", "usher-paths", "keys"}},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			r := &rendering{args: []string{"--set", test.set}}
			for _, role := range only[*rbacv1.Role](r.objects(t)) {
				for _, rule := range role.Rules {
					if !slices.Contains(rule.Resources, "secrets") || cmp.Equal(rule.Verbs, []string{"create"}) {
						continue
					}
					want, verbs := test.want, []string{"get", "update"}
					if strings.HasSuffix(role.Name, "-uninstall") {
						want, verbs = test.want[len(test.want)-2:len(test.want)-1], []string{"get", "delete"}
						if slices.Equal(rule.Verbs, []string{"get"}) {
							want, verbs = test.want[len(test.want)-1:], rule.Verbs
						}
					}
					if diff := cmp.Diff(want, rule.ResourceNames); diff != "" || !slices.Equal(rule.Verbs, verbs) {
						t.Errorf("role %s may %v the Secrets (-want +got):\n%s", role.Name, rule.Verbs, diff)
					}
				}
			}
		})
	}
}

func allowed(objects []runtime.Object, group, resource string) bool {
	var rules []rbacv1.PolicyRule
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		rules = append(rules, role.Rules...)
	}
	for _, role := range only[*rbacv1.Role](objects) {
		rules = append(rules, role.Rules...)
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource)
	})
}

// The Job that removes the registration is the only one that may make it then.
func TestReplicasCannotRegisterDuringUninstall(t *testing.T) {
	t.Parallel()
	for _, r := range renderings[:2] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			passesToTheJob(t, r, "-registration")
		})
	}
}

// Reports that the Job deletes are not written again.
func TestReplicasWriteNoReportsDuringUninstall(t *testing.T) {
	t.Parallel()
	passesToTheJob(t, renderings[1], "-reports")
}

// passesToTheJob checks that a role passes from the replicas to the Job that uninstalls.
func passesToTheJob(t *testing.T, r *rendering, role string) {
	t.Helper()
	objects := r.objects(t)
	job := one[*batchv1.Job](t, objects)
	replicas := one[*appsv1.Deployment](t, objects).Spec.Template.Spec.ServiceAccountName
	bound := map[string][]string{}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		if strings.HasSuffix(b.RoleRef.Name, role) {
			hook := b.Annotations["helm.sh/hook"]
			bound[hook] = append(bound[hook], b.Name, b.Subjects[0].Name)
		}
	}
	if len(bound[""]) != 2 || bound[""][1] != replicas {
		t.Errorf("the release binds %v, want one binding for %s", bound[""], replicas)
	}
	want := []string{bound[""][0], job.Spec.Template.Spec.ServiceAccountName}
	if diff := cmp.Diff(want, bound["pre-delete"]); diff != "" {
		t.Errorf("before the deletion (-want +got):\n%s", diff)
	}
	if job.Annotations["helm.sh/hook"] != "pre-delete" || job.Spec.Template.Spec.ServiceAccountName == replicas {
		t.Errorf("the Job %v runs as %s", job.Annotations, job.Spec.Template.Spec.ServiceAccountName)
	}
}

// Usher writes no policies, but the one of its dry runs.
func TestPoliciesAreNotWritten(t *testing.T) {
	t.Parallel()
	for _, r := range renderings {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var written [][]string
			for _, role := range only[*rbacv1.ClusterRole](r.objects(t)) {
				for _, rule := range role.Rules {
					policies := slices.Contains(rule.APIGroups, "policy.kcloudlabs.io") || slices.Contains(rule.APIGroups, "usher.dev")
					if policies && writes(rule) && !strings.HasSuffix(rule.Resources[0], "/status") {
						written = append(written, slices.Concat(rule.Resources, rule.ResourceNames, rule.Verbs))
					}
				}
			}
			want := [][]string{{"clustervalidatepolicies", "usher-probe", "create", "patch"}}
			if diff := cmp.Diff(want, written); diff != "" {
				t.Errorf("policies that may be written (-want +got):\n%s", diff)
			}
		})
	}
}

// Who may ask is what the values say, from files that are mounted.
func TestCallers(t *testing.T) {
	t.Parallel()
	flags := []string{
		"--client-ca-file=/etc/usher/client-ca/ca.crt", "--client-names=kube-apiserver", "--client-names=spiffe://example.com/api",
		"--token-file=/etc/usher/client-tokens/tokens",
	}
	for _, r := range renderings[:2] {
		pod := one[*appsv1.Deployment](t, r.objects(t)).Spec.Template.Spec
		found := 0
		for _, flag := range flags {
			if slices.Contains(pod.Containers[0].Args, flag) {
				found++
			}
		}
		want := map[string]int{"default": 0, "everything": len(flags)}[r.name]
		if found != want {
			t.Errorf("%s: %d of the flags for callers, want %d: %v", r.name, found, want, pod.Containers[0].Args)
		}
		mounted := map[string]string{}
		for _, mount := range pod.Containers[0].VolumeMounts {
			mounted[mount.Name] = mount.MountPath
		}
		for _, volume := range pod.Volumes {
			if mounted[volume.Name] == "" {
				t.Errorf("%s: volume %s is not mounted", r.name, volume.Name)
			}
		}
		if want > 0 && (mounted["client-ca"] != "/etc/usher/client-ca" || mounted["client-tokens"] != "/etc/usher/client-tokens") {
			t.Errorf("%s: mounted are %v", r.name, mounted)
		}
	}
}

// Policies in ConfigMaps are mounted, each where the server looks for it.
func TestPoliciesInConfigMaps(t *testing.T) {
	t.Parallel()
	r := &rendering{args: []string{"--set", "policies.configMaps={guardrails,mutations.v2}"}}
	pod := one[*appsv1.Deployment](t, r.objects(t)).Spec.Template.Spec
	for _, name := range []string{"guardrails", "mutations.v2"} {
		path := "/etc/usher/policies/" + name
		if !slices.Contains(pod.Containers[0].Args, "--policies="+path) {
			t.Errorf("the server does not read %s: %v", path, pod.Containers[0].Args)
		}
		volume := ""
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.MountPath == path && mount.ReadOnly {
				volume = mount.Name
			}
		}
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == volume && v.ConfigMap != nil && v.ConfigMap.Name == name
		}) {
			t.Errorf("%s is not the ConfigMap %s: %v", path, name, pod.Volumes)
		}
	}
}
