package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rightsByDefault are all rights of the replicas and of the Job that uninstalls, by role.
const rightsByDefault = registration + uninstallation + getOwners + readAdmission + `
ClusterRole usher: create subjectaccessreviews.authorization.k8s.io
ClusterRole usher: create tokenreviews.authentication.k8s.io
ClusterRole usher: get /readyz/verbose
ClusterRole usher-metrics: get /metrics
ClusterRole usher-metrics: get /readyz/verbose
ClusterRole usher: create,patch clustervalidatepolicies.policy.kcloudlabs.io usher-probe
ClusterRole usher: create,patch events
ClusterRole usher: get,list,watch authorizationpolicies.usher.dev
ClusterRole usher: get,list,watch namespaces
ClusterRole usher: get,list,watch clusterauthorizationpolicies.usher.dev
ClusterRole usher: get,list,watch clusterobjectpolicies.usher.dev
ClusterRole usher: get,list,watch clusterpolicycandidates.usher.dev
ClusterRole usher: get,list,watch clusterpolicyexemptions.usher.dev
ClusterRole usher: get,list,watch objectpolicies.usher.dev
ClusterRole usher: get,list,watch policycandidates.usher.dev
ClusterRole usher: get,list,watch policyexemptions.usher.dev
ClusterRole usher: get,list,watch clusteroverridepolicies.policy.kcloudlabs.io
ClusterRole usher: get,list,watch clustervalidatepolicies.policy.kcloudlabs.io
ClusterRole usher: get,list,watch overridepolicies.policy.kcloudlabs.io
ClusterRole usher: patch authorizationpolicies/status.usher.dev
ClusterRole usher: patch clusterauthorizationpolicies/status.usher.dev
ClusterRole usher: patch clusterobjectpolicies/status.usher.dev
ClusterRole usher: patch clusterpolicycandidates/status.usher.dev
ClusterRole usher: patch clusterpolicyexemptions/status.usher.dev
ClusterRole usher: patch objectpolicies/status.usher.dev
ClusterRole usher: patch policycandidates/status.usher.dev
ClusterRole usher: patch policyexemptions/status.usher.dev
ClusterRole usher: patch clusteroverridepolicies/status.policy.kcloudlabs.io
ClusterRole usher: patch clustervalidatepolicies/status.policy.kcloudlabs.io
ClusterRole usher: patch overridepolicies/status.policy.kcloudlabs.io
Role usher-system/usher: create secrets
Role usher-system/usher: get,list,watch,create,update,patch,delete leases.coordination.k8s.io
Role usher-system/usher: get,update secrets usher-cert
Role usher-system/usher: get,update secrets usher-paths
Role usher-system/usher: get,update secrets usher-proofs`

// Rights that values remove.
const (
	registration = `
ClusterRole usher-registration: get,create,patch,delete mutatingwebhookconfigurations.admissionregistration.k8s.io usher
ClusterRole usher-registration: get,create,patch,delete validatingwebhookconfigurations.admissionregistration.k8s.io usher`
	uninstallation = `
ClusterRole usher-uninstall: list authorizationpolicies.usher.dev
ClusterRole usher-uninstall: list clusterauthorizationpolicies.usher.dev
ClusterRole usher-uninstall: list clusterobjectpolicies.usher.dev
ClusterRole usher-uninstall: list clusterpolicycandidates.usher.dev
ClusterRole usher-uninstall: list clusterpolicyexemptions.usher.dev
ClusterRole usher-uninstall: list objectpolicies.usher.dev
ClusterRole usher-uninstall: list policycandidates.usher.dev
ClusterRole usher-uninstall: list policyexemptions.usher.dev
ClusterRole usher-uninstall: list clusteroverridepolicies.policy.kcloudlabs.io
ClusterRole usher-uninstall: list clustervalidatepolicies.policy.kcloudlabs.io
ClusterRole usher-uninstall: list overridepolicies.policy.kcloudlabs.io
ClusterRole usher-uninstall: patch authorizationpolicies/status.usher.dev
ClusterRole usher-uninstall: patch clusterauthorizationpolicies/status.usher.dev
ClusterRole usher-uninstall: patch clusterobjectpolicies/status.usher.dev
ClusterRole usher-uninstall: patch clusterpolicycandidates/status.usher.dev
ClusterRole usher-uninstall: patch clusterpolicyexemptions/status.usher.dev
ClusterRole usher-uninstall: patch objectpolicies/status.usher.dev
ClusterRole usher-uninstall: patch policycandidates/status.usher.dev
ClusterRole usher-uninstall: patch policyexemptions/status.usher.dev
ClusterRole usher-uninstall: patch clusteroverridepolicies/status.policy.kcloudlabs.io
ClusterRole usher-uninstall: patch clustervalidatepolicies/status.policy.kcloudlabs.io
ClusterRole usher-uninstall: patch overridepolicies/status.policy.kcloudlabs.io
Role usher-system/usher-uninstall: get,delete secrets usher-paths
Role usher-system/usher-uninstall: get secrets usher-proofs
Role usher-system/usher-uninstall: list,delete leases.coordination.k8s.io`
	readAdmission = `
ClusterRole usher: get,list,watch mutatingadmissionpolicies.admissionregistration.k8s.io
ClusterRole usher: get,list,watch mutatingadmissionpolicybindings.admissionregistration.k8s.io
ClusterRole usher: get,list,watch validatingadmissionpolicies.admissionregistration.k8s.io
ClusterRole usher: get,list,watch validatingadmissionpolicybindings.admissionregistration.k8s.io`
	auditByDefault = `
ClusterRole usher: list,watch configmaps
ClusterRole usher: list,watch endpoints
ClusterRole usher: list,watch limitranges
ClusterRole usher: list,watch namespaces
ClusterRole usher: list,watch nodes
ClusterRole usher: list,watch persistentvolumeclaims
ClusterRole usher: list,watch persistentvolumes
ClusterRole usher: list,watch pods
ClusterRole usher: list,watch podtemplates
ClusterRole usher: list,watch replicationcontrollers
ClusterRole usher: list,watch resourcequotas
ClusterRole usher: list,watch serviceaccounts
ClusterRole usher: list,watch services
ClusterRole usher: list,watch daemonsets.apps
ClusterRole usher: list,watch deployments.apps
ClusterRole usher: list,watch replicasets.apps
ClusterRole usher: list,watch statefulsets.apps
ClusterRole usher: list,watch horizontalpodautoscalers.autoscaling
ClusterRole usher: list,watch cronjobs.batch
ClusterRole usher: list,watch jobs.batch
ClusterRole usher: list,watch ingressclasses.networking.k8s.io
ClusterRole usher: list,watch ingresses.networking.k8s.io
ClusterRole usher: list,watch networkpolicies.networking.k8s.io
ClusterRole usher: list,watch poddisruptionbudgets.policy
ClusterRole usher: list,watch clusterrolebindings.rbac.authorization.k8s.io
ClusterRole usher: list,watch clusterroles.rbac.authorization.k8s.io
ClusterRole usher: list,watch rolebindings.rbac.authorization.k8s.io
ClusterRole usher: list,watch roles.rbac.authorization.k8s.io
ClusterRole usher: list,watch storageclasses.storage.k8s.io`
	reporting = `
ClusterRole usher-reports: get,list,create,update,delete clusterreports.openreports.io
ClusterRole usher-reports: get,list,create,update,delete reports.openreports.io`
	getOwners = `
ClusterRole usher: get cronjobs.batch
ClusterRole usher: get daemonsets.apps
ClusterRole usher: get deployments.apps
ClusterRole usher: get jobs.batch
ClusterRole usher: get replicasets.apps
ClusterRole usher: get statefulsets.apps`
)

// TestEachRightHasItsValue lists every right of the chart, and which value adds or removes it: a
// right that is new has to be written down here.
func TestEachRightHasItsValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, set    string
		added, removed string
	}{
		{"by default", "", rightsByDefault, ""},
		{"callers of the API are asked about, and may get roles", "api.enabled=true", `
ClusterRole usher-admin: get,list,watch recordings.usher.dev
ClusterRole usher-edit: get,list,watch candidatedecisions.usher.dev
ClusterRole usher-edit: get,list,watch decisions.usher.dev
ClusterRole usher-view: get,list,watch auditresults.usher.dev`, ""},
		{"one kind is audited", "audit.enabled=true,reports.enabled=false,audit.resources[0].apiGroups={example.com},audit.resources[0].resources={widgets}", "ClusterRole usher: list,watch widgets.example.com", ""},
		{"all kinds of the chart are audited", "audit.enabled=true,reports.enabled=false", auditByDefault, ""},
		{"what is audited is reported", "audit.enabled=true", auditByDefault + reporting, ""},
		{"the Job deletes the kinds of reports that the chart installed", "audit.enabled=true,reports.installCRDs=true", auditByDefault + reporting + `
ClusterRole usher-uninstall: get,delete customresourcedefinitions.apiextensions.k8s.io clusterreports.openreports.io
ClusterRole usher-uninstall: get,delete customresourcedefinitions.apiextensions.k8s.io reports.openreports.io`, ""},
		{"nothing is reported unless it is audited", "reports.installCRDs=true", "", ""},
		{"Secrets are not audited unless they are listed", "audit.enabled=true,audit.secrets=true", auditByDefault + reporting, ""},
		{"nothing is audited", "audit.resources[0].apiGroups={example.com},audit.resources[0].resources={widgets}", "", ""},
		{"admission policies of the cluster are not read", "admissionPolicies=off", "", readAdmission},
		{"YAML reads off as false", "admissionPolicies=false", "", readAdmission},
		{"enforcing takes no more than reading", "admissionPolicies=enforce", "", ""},
		{"no admission policy asks for namespaces", "facts.namespaces=false", "", "ClusterRole usher: get,list,watch namespaces"},
		{"files are no right on the cluster", "policies.configMaps={guardrails}", "", ""},
		{"no policy asks for owners", "facts.owners=false", "", getOwners},
		{"owners are kept, not asked for one by one", "facts.watchOwners=true", strings.ReplaceAll(getOwners, ": get ", ": get,list,watch "), getOwners},
		{"somebody else registers", "webhookConfiguration.enabled=false", "", registration + uninstallation + `
Role usher-system/usher: get,update secrets usher-paths`},
		{"somebody else makes the certificate", "certificate.existingSecret=tls", "", "Role usher-system/usher: get,update secrets usher-cert"},
		{
			"the key of policy proofs has another name", "proofs.secret=keys",
			"Role usher-system/usher-uninstall: get secrets keys\nRole usher-system/usher: get,update secrets keys",
			"Role usher-system/usher-uninstall: get secrets usher-proofs\nRole usher-system/usher: get,update secrets usher-proofs",
		},
		{"what policies may do is no right of Usher", "limits.namespaced.kinds={Secret}", "", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			before := map[string]bool{}
			if test.set != "" {
				before = rights(renderings[0].objects(t))
			}
			after := rights((&rendering{args: []string{"--set", test.set}}).objects(t))
			if diff := cmp.Diff(lines(test.added), without(after, before)); diff != "" {
				t.Errorf("rights that are added (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(lines(test.removed), without(before, after)); diff != "" {
				t.Errorf("rights that are removed (-want +got):\n%s", diff)
			}
		})
	}
}

func lines(text string) []string {
	return slices.Sorted(slices.Values(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })))
}

func without(all, some map[string]bool) []string {
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(right string, _ bool) bool { return some[right] })
	return slices.Sorted(maps.Keys(left))
}

// rights are the rights in all roles, one object or resource each.
func rights(objects []runtime.Object) map[string]bool {
	all := map[string]bool{}
	add := func(role string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, path := range rule.NonResourceURLs {
				all[role+": "+strings.Join(rule.Verbs, ",")+" "+path] = true
			}
			for _, resource := range rule.Resources {
				if group := strings.Join(rule.APIGroups, ","); group != "" {
					resource += "." + group
				}
				for _, name := range names {
					all[strings.TrimSpace(role+": "+strings.Join(rule.Verbs, ",")+" "+resource+" "+name)] = true
				}
			}
		}
	}
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		add("ClusterRole "+role.Name, role.Rules)
	}
	for _, role := range only[*rbacv1.Role](objects) {
		add("Role "+role.Namespace+"/"+role.Name, role.Rules)
	}
	return all
}
