package observe_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
)

// A protectedCluster answers what usher status asks; what is empty it does not know, except for the version.
type protectedCluster struct {
	pods, leases, policies, exemptions, authorization string
	// tenants counts policies of a namespace that are not enforced.
	tenants int
	// failurePolicy and ca are those of the webhook configurations.
	failurePolicy, ca, otherCA string
	// removed is an entry that somebody has removed.
	removed string
	// conditions are their match conditions.
	conditions string
	// unregistered is the end of the paths of webhook configurations that do not exist.
	unregistered string
	// probe is the error of the dry run.
	probe string
	// closed is the error of a dry run that goes to an entry that fails closed.
	closed string
	// page is what /readyz?verbose of a pod says.
	page string
	// forbidden is a part of the path of what the user may not do.
	forbidden string
	// tenant is a part of the path of what the user may do nevertheless.
	tenant string
	// outside is the URL, as JSON, at which API servers call a server outside of the cluster.
	outside string
	// mutates is the failure policy of the mutating webhooks, if it differs.
	mutates string
	// args are those of the command.
	args []string
}

const (
	readyPod  = `{"metadata":{"name":"usher-1","namespace":"usher-system"},"spec":{"containers":[{"ports":[{"name":"webhooks","containerPort":8443}]}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	endingPod = `{"metadata":{"name":"usher-2","namespace":"usher-system"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	refused   = `admission webhook "validate-policies.usher.dev" denied the request: it does not compile`
	hangs     = "no answer"
	none      = "none"
	exemption = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterPolicyExemption","metadata":{"name":"NAME"},"spec":{"policyRefs":[{"kind":"ClusterObjectPolicy","name":"POLICY"}],"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"shop"}}},"reason":"the checkout is down","owner":"team-shop","expiresAt":"END"}}`
	inForce   = `{"type":"Enforced","status":"True","reason":"Enforced"}`
)

func statusOf(name, more string, conditions ...string) string {
	return fmt.Sprintf(`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":%q,"generation":2},"spec":{%s},"status":{"observedGeneration":2,"conditions":[%s]}}`, name, more, strings.Join(conditions, ","))
}

// leaseOf is the Lease of a server outside of the cluster.
func leaseOf(identity string, started, renewed time.Time) string {
	const layout = "2006-01-02T15:04:05.000000Z"
	return fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"usher.dev/serves":"key listens:127.0.0.1:8443"}},"spec":{"holderIdentity":%q,"acquireTime":%q,"renewTime":%q}}`,
		identity, identity, started.UTC().Format(layout), renewed.UTC().Format(layout))
}

func (c *protectedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message})
	}
	webhooks := func(names ...string) string {
		var all []string
		for i, name := range slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == c.removed }) {
			ca, failurePolicy := c.ca, c.failurePolicy
			if name == "mutate" && c.mutates != "" {
				failurePolicy = c.mutates
			}
			if i > 0 && c.otherCA != "" {
				ca = strings.TrimPrefix(c.otherCA, none)
			}
			resources := map[bool]string{false: `"pods","deployments","apps","services","x"`, true: `"clusterobjectpolicies"`}[name == "validate-policies"]
			all = append(all, fmt.Sprintf(`{"name":"%s.usher.dev","failurePolicy":%q,"rules":[{"resources":[%s]}],"clientConfig":{"url":%s,"caBundle":%q},"matchConditions":[%s]}`, name, failurePolicy, resources, cmp.Or(c.outside, "null"), base64.StdEncoding.EncodeToString([]byte(ca)), c.conditions))
		}
		return fmt.Sprintf(`{"metadata":{"annotations":{"usher.dev/entries":%q}},"webhooks":[%s]}`, strings.Join(names, ","), strings.Join(all, ","))
	}
	switch path := r.URL.Path; {
	case path == "/version":
		_, _ = io.WriteString(w, `{}`)
	case c.unregistered != "" && strings.HasSuffix(path, c.unregistered):
		fail(http.StatusNotFound, "NotFound", "there is no "+path)
	case c.forbidden != "" && strings.Contains(path, c.forbidden) && (c.tenant == "" || !strings.Contains(path, c.tenant)):
		fail(http.StatusForbidden, "Forbidden", `User "jane" cannot do that`)
	case strings.HasSuffix(path, "/proxy/readyz"):
		if c.page == "" {
			fail(http.StatusServiceUnavailable, "ServiceUnavailable", "error trying to reach service: dial tcp: connection refused")
			return
		}
		if r.URL.Query().Has("verbose") {
			_, _ = io.WriteString(w, c.page)
		}
	case strings.HasSuffix(path, "/pods"):
		_, _ = io.WriteString(w, `{"items":[`+c.pods+`]}`)
	case strings.HasSuffix(path, "/leases"):
		_, _ = io.WriteString(w, `{"items":[`+c.leases+`]}`)
	case strings.HasSuffix(path, "/validatingwebhookconfigurations/usher"):
		_, _ = io.WriteString(w, webhooks("validate", "validate-policies"))
	case strings.HasSuffix(path, "/mutatingwebhookconfigurations/usher"):
		_, _ = io.WriteString(w, webhooks("mutate"))
	case strings.Contains(path, "/usher.dev/v1alpha1/cluster") && r.Method == http.MethodGet:
		items := map[string]string{"clusterobjectpolicies": c.policies, "clusterpolicyexemptions": c.exemptions, "clusterauthorizationpolicies": c.authorization}
		_, _ = io.WriteString(w, `{"apiVersion":"usher.dev/v1alpha1","kind":"List","items":[`+items[filepath.Base(path)]+`]}`)
	case strings.HasSuffix(path, "/objectpolicies"):
		one := `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicy","metadata":{"name":"p","namespace":"shop"}}`
		_, _ = io.WriteString(w, `{"apiVersion":"usher.dev/v1alpha1","kind":"ObjectPolicyList","items":[`+strings.TrimPrefix(strings.Repeat(","+one, c.tenants), ",")+`]}`)
	case strings.HasSuffix(path, "/clustervalidatepolicies/usher-probe") && r.URL.Query().Get("dryRun") == "All":
		if c.probe == hangs {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		if c.probe == "" {
			_, _ = io.WriteString(w, `{"metadata":{"name":"usher-probe"}}`)
			return
		}
		fail(http.StatusForbidden, "Forbidden", c.probe)
	case strings.HasSuffix(path, "/clusterpolicyexemptions/usher-probe") && r.URL.Query().Get("dryRun") == "All" && c.closed != "":
		fail(http.StatusInternalServerError, "InternalError", c.closed)
	default:
		fail(http.StatusNotFound, "NotFound", "there is no "+path)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() == "/readyz?verbose" {
			_, _ = io.WriteString(w, "failing: registration\nok\nregistration usher: fails, since 2026-01-02T03:04:05Z\n  denied request: locked\npaths: 1\n")
		}
	}))
	t.Cleanup(server.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	healthy := func() *protectedCluster {
		return &protectedCluster{pods: readyPod, policies: statusOf("one", "", inForce), failurePolicy: "Fail", ca: ca, probe: refused, page: "ok\n"}
	}
	for _, row := range []struct {
		reason string
		change func(*protectedCluster)
		// status is the exit status, and says are parts of the output.
		status int
		says   []string
	}{
		{"all is well", func(*protectedCluster) {}, cli.ExitOK, []string{"the cluster is protected as its policies say\n", "calls          API servers call Usher\n", "replicas       1 of 1 ready\n", "webhooks       3 entries; without an answer of Usher, API servers refuse the requests of mutate, validate, validate-policies (Fail)\n", "policies       1 of 1 enforced, 0 failing, 0 unproven, 0 suspended\n", "not known: the last decisions, and which policies refuse or are slow: "}},
		{"nothing is for a namespace", func(c *protectedCluster) {
			c.conditions = `{"name":"namespaces-with-policies","expression":"!(has(request.namespace) && request.namespace in ['kube-system'])"}`
		}, cli.ExitOK, []string{"webhooks       3 entries; without an answer of Usher, API servers refuse the requests of mutate, validate, validate-policies (Fail)\n                 requests in kube-system are not sent, except for policies: no policy is for it\n"}},
		{"policies are for some namespaces", func(c *protectedCluster) {
			c.conditions = `{"name":"namespaces-with-policies","expression":"!has(request.namespace) || request.namespace in ['a', 'b', 'c', 'd', 'e']"}`
		}, cli.ExitOK, []string{"\n                 requests in all namespaces but a, b, c and 2 more are not sent, except for policies: no policy is for them\n"}},
		{"one of two replicas is ready", func(c *protectedCluster) { c.pods += "," + endingPod }, cli.ExitOK, []string{"1 of 2 ready"}},
		{"no replica is ready", func(c *protectedCluster) { c.pods = endingPod }, cli.ExitNegative, []string{"problem: no replica of Usher is ready in namespace usher-system"}},
		{"an outage", func(c *protectedCluster) { c.pods, c.probe = endingPod, "" }, cli.ExitNegative, []string{
			"policies       1, none of which Usher enforces now: what their status says is old\n",
			"writes of pods, deployments, services and 2 more are refused: API servers get no answer of Usher\n", "problem: no replica answers: writes of pods, deployments, services and 2 more are refused (Fail); none is ready in namespace usher-system",
		}},
		{"an outage of what fails open", func(c *protectedCluster) { c.pods, c.probe, c.failurePolicy = endingPod, "", "Ignore" }, cli.ExitNegative, []string{
			"nothing is enforced: API servers get no answer of Usher\n", "API servers admit those of mutate", "problem: no replica answers; none is ready in namespace usher-system",
		}},
		{"an outage of what authorizes", func(c *protectedCluster) {
			c.pods, c.probe, c.failurePolicy = endingPod, "", "Ignore"
			of := func(name, more string) string {
				return strings.Replace(statusOf(name, more, inForce), "ClusterObjectPolicy", "ClusterAuthorizationPolicy", 1)
			}
			c.authorization = of("a", `"effect":"Deny"`) + "," + of("b", `"effect":"Allow","enforcement":"Enforce"`) + "," + of("off", `"suspend":true`) + "," + of("audit", `"enforcement":"Audit"`)
		}, cli.ExitNegative, []string{
			"nothing is enforced: API servers get no answer of Usher; 2 authorization policies decide nothing: what they deny passes if RBAC allows it, or is an internal error\n",
			"problem: 2 authorization policies decide nothing: no replica answers authorization webhooks. What they deny passes if RBAC allows it and API servers have failurePolicy: NoOpinion. What RBAC does not allow, and with failurePolicy: Deny all that is sent to /authorize/deny, gets an internal error (500) that names the webhook (docs/",
		}},
		{"who is exempt, and whether authorization fails open", func(c *protectedCluster) {
			c.policies = strings.Join([]string{
				statusOf("a", `"excludeSubjects":[{"groups":["sre\u001b[1m"],"users":["jane"]},{"serviceAccounts":["ci/*"]}]`, inForce),
				statusOf("off", `"suspend":true,"excludeSubjects":[{"users":["joe"]}]`, inForce),
			}, ",")
			c.authorization = strings.Replace(statusOf("b", `"effect":"Deny","excludeSubjects":[{"groups":["admins"]}]`, inForce), "ClusterObjectPolicy", "ClusterAuthorizationPolicy", 1)
		}, cli.ExitNegative, []string{
			"1 suspended\n                 2 policies exclude subjects: ClusterAuthorizationPolicy b (groups admins), ClusterObjectPolicy a (users jane; groups sre\\x1b[1m, service accounts ci/*)\n  decisions ",
			"\nnot known: whether API servers fail open where Usher does not answer authorization webhooks: failurePolicy in the file of their --authorization-config says it",
		}},
		{"a replica that is said to be ready and does not answer", func(c *protectedCluster) { c.page, c.probe = "", "" }, cli.ExitNegative, []string{
			"0 of 1 ready", "problem: replica usher-1 does not answer: ", "problem: no replica answers: writes of ",
		}},
		{"nothing runs", func(c *protectedCluster) { c.pods = "" }, cli.ExitNegative, []string{"0 of 0 ready", "problem: no replica"}},
		{"a server outside of the cluster", func(c *protectedCluster) {
			c.pods = ""
			c.leases = fmt.Sprintf(`{"metadata":{"name":"x"},"spec":{"holderIdentity":"host","renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		}, cli.ExitOK, []string{"1 of 1 ready"}},
		{"one that has ended", func(c *protectedCluster) {
			c.pods, c.leases = "", `{"metadata":{"name":"x"},"spec":{"holderIdentity":"host","renewTime":"2020-01-01T00:00:00.000000Z"}}`
		}, cli.ExitNegative, []string{"0 of 0 ready", "; 1 Lease of a server that has ended is left\n"}},
		{"one after a restart", func(c *protectedCluster) {
			c.pods = ""
			c.leases = fmt.Sprintf(`{"metadata":{"name":"x"},"spec":{"holderIdentity":"host","renewTime":%q}},{"metadata":{"name":"y"},"spec":{"holderIdentity":"before","renewTime":"2020-01-01T00:00:00.000000Z"}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		}, cli.ExitOK, []string{"1 of 1 ready"}},
		{"a server outside of the cluster that was killed", func(c *protectedCluster) {
			c.pods, c.leases = "", leaseOf("host-1", time.Now().Add(-time.Minute), time.Now().Add(-4*time.Second))
			c.probe = `Internal error occurred: failed calling webhook "validate-policies.usher.dev": dial tcp 127.0.0.1:8443: connect: connection refused`
		}, cli.ExitNegative, []string{"0 of 1 ready (host-1 last heard 4s ago, refuses connections)\n", "problem: no replica answers: writes of "}},
		{"one that was killed, and one in its place", func(c *protectedCluster) {
			c.pods = ""
			c.leases = leaseOf("host-1", time.Now().Add(-time.Minute), time.Now().Add(-8*time.Second)) + "," + leaseOf("host-22", time.Now().Add(-2*time.Second), time.Now())
		}, cli.ExitOK, []string{"1 of 2 ready (host-1 last heard 8s ago, another server runs in its place)\n"}},
		{"one that does not renew its Lease", func(c *protectedCluster) {
			c.pods = ""
			c.leases = leaseOf("host-1", time.Now().Add(-time.Minute), time.Now().Add(-20*time.Second)) + "," + leaseOf("other-22", time.Now().Add(-2*time.Second), time.Now())
		}, cli.ExitOK, []string{"1 of 2 ready (host-1 last heard 20s ago, does not renew its Lease)\n"}},
		{"two servers of other hosts", func(c *protectedCluster) {
			c.pods = ""
			c.leases = leaseOf("host-1", time.Now().Add(-time.Minute), time.Now().Add(-8*time.Second)) + "," + leaseOf("other-22", time.Now().Add(-2*time.Second), time.Now())
		}, cli.ExitOK, []string{"2 of 2 ready\n"}},
		{"a part fails", func(c *protectedCluster) { c.page = "failing: registration\nok\n" }, cli.ExitNegative, []string{"problem: replica usher-1: failing: registration\n"}},
		{"the kill switch of denials is on", func(c *protectedCluster) {
			c.page = "failing: denials of authorization policies\nok\ndenials of authorization policies are switched off\n  /off exists: remove it, and they deny again\n"
		}, cli.ExitNegative, []string{"problem: replica usher-1: failing: denials of authorization policies (/off exists: remove it, and they deny again)\n"}},
		{"CRDs are missing, or older", func(c *protectedCluster) {
			c.page = "failing: ClusterObjectPolicy, PolicyExemption\nok\n  ClusterObjectPolicy: older\n  PolicyExemption: absent\npolicies: generation 1\n  ClusterObjectPolicy: 2\n"
		}, cli.ExitNegative, []string{"problem: replica usher-1: failing: ClusterObjectPolicy (older), PolicyExemption (absent)\n"}},
		{"policies of which each is listed", func(c *protectedCluster) {
			c.page, c.tenants = "failing: policies\nok\npolicy proofs\n  policies: 0 proven, 1 unproven\n", 1
		}, cli.ExitOK, []string{"the cluster is protected as its policies say; policies of namespaces have 1 problem"}},
		{"policies that cannot be listed", func(c *protectedCluster) { c.page, c.forbidden = "failing: policies\nok\n", "policies" }, cli.ExitNegative, []string{"problem: replica usher-1: failing: policies\n"}},
		{"a part of a server outside of the cluster fails", func(c *protectedCluster) {
			c.pods, c.leases, c.outside = "", leaseOf("host-1", time.Now(), time.Now()), strconv.Quote(server.URL+"/validate")
		}, cli.ExitNegative, []string{"problem: server 127.0.0.1:", ": failing: registration (denied request: locked)\n"}},
		{"one of two configurations is missing, and a server outside of the cluster may not register", func(c *protectedCluster) {
			c.unregistered, c.probe = "validatingwebhookconfigurations/usher", ""
			c.pods, c.leases, c.outside = "", leaseOf("host-1", time.Now(), time.Now()), strconv.Quote(server.URL+"/validate")
		}, cli.ExitNegative, []string{
			"validatingwebhookconfigurations/usher; replicas fail to register: if that right was", ": failing: registration (denied request: locked)\n",
		}},
		{"a server outside of the cluster that cannot be reached from here", func(c *protectedCluster) {
			c.pods, c.leases, c.outside = "", leaseOf("host-1", time.Now(), time.Now()), `"https://127.0.0.1:1"`
		}, cli.ExitOK, []string{"not known: what of the server at 127.0.0.1:1 does not work: "}},
		{"fails open", func(c *protectedCluster) { c.failurePolicy = "Ignore" }, cli.ExitOK, []string{"3 entries; without an answer of Usher, API servers admit those of mutate, validate, validate-policies (Ignore)\n"}},
		{"Usher is not called", func(c *protectedCluster) { c.probe = "" }, cli.ExitNegative, []string{"problem: API servers do not call Usher: a dry run of a policy that does not compile was accepted", "; without an answer writes of pods, deployments, services and 2 more are refused (Fail); the way out, until it answers again: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration usher (docs/3am.md: Usher is down)\n"}},
		{"Usher hangs", func(c *protectedCluster) { c.probe = hangs }, cli.ExitNegative, []string{
			"writes of pods, deployments, services and 2 more are refused: API servers get no answer of Usher\n",
			"problem: Usher hangs, and writes of pods, deployments, services and 2 more are refused (Fail): a dry run got no answer in 5s while the API server answers other requests; ", "; the way out, until it answers again: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration usher (docs/3am.md: Usher is down)\n",
		}},
		{"a server outside of the cluster has ended, and its Lease has not", func(c *protectedCluster) {
			c.pods, c.leases, c.probe = "", leaseOf("host-1", time.Now(), time.Now()), ""
			c.closed = `Internal error occurred: failed calling webhook "mutate-rights.usher.dev": failed to call webhook: Post "https://127.0.0.1:8443/mutate": dial tcp 127.0.0.1:8443: connect: connection refused`
		}, cli.ExitNegative, []string{
			"writes of pods, deployments, services and 2 more are refused: API servers get no answer of Usher\n",
			"0 of 1 ready (host-1 last heard 0s ago, refuses connections)", "problem: no replica answers: writes of pods",
		}},
		{"the webhook does not answer", func(c *protectedCluster) {
			c.probe = `Internal error occurred: failed calling webhook "validate-policies.usher.dev": x509: certificate signed by unknown authority`
		}, cli.ExitNegative, []string{"problem: API servers do not call Usher: ", "x509: certificate signed by unknown authority"}},
		{"nothing is registered", func(c *protectedCluster) { c.unregistered, c.probe = "webhookconfigurations/usher", "" }, cli.ExitNegative, []string{
			"nothing is enforced: the webhook configurations are missing; a replica that runs registers within half a minute\n",
			"problem: not registered: there is no /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/usher; a replica that runs registers within half a minute\n",
		}},
		{"nothing is registered, and replicas may not do so", func(c *protectedCluster) {
			c.unregistered, c.probe, c.page = "webhookconfigurations/usher", "", "failing: registration\n  registration: forbidden\n"
		}, cli.ExitNegative, []string{
			"nothing is enforced: the webhook configurations are missing; replicas fail to register: if that right was taken from them (docs/3am.md), helm upgrade gives it back\n",
		}},
		{"nothing is registered, and no replica is ready", func(c *protectedCluster) {
			c.unregistered, c.probe, c.pods = "webhookconfigurations/usher", "", endingPod
			c.policies = statusOf("one", "", `{"type":"Enforced","status":"False","reason":"NoServer","message":"x","lastTransitionTime":"2030-01-31T12:00:00Z"}`)
		}, cli.ExitNegative, []string{
			"nothing is enforced since 2030-01-31T12:00:00Z: the webhook configurations are missing, and no replica is ready; the next one that starts registers them\n",
		}},
		{"one of two configurations is gone", func(c *protectedCluster) { c.unregistered, c.probe = "/validatingwebhookconfigurations/usher", "" }, cli.ExitNegative, []string{
			"not everything is enforced: a part of Usher is not registered\n", "policies       1, of which Usher enforces only what the webhooks that are left are for", "last decision  not known\nproblem: not registered: there is no /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/usher; a replica that runs registers within half a minute\nnot known: ",
		}},
		{"an outage comes before warnings", func(c *protectedCluster) {
			c.pods, c.probe = endingPod, ""
			c.policies = strings.Replace(statusOf("p", "", inForce), `"conditions"`, `"problems":[{"severity":"warning","field":"spec","what":"x"}],"conditions"`, 1)
		}, cli.ExitNegative, []string{"docs/3am.md: Usher is down)\nlook at: ClusterObjectPolicy p: warning: spec: x\n"}},
		{"a mistake that was written while nobody was asked", func(c *protectedCluster) {
			c.policies = strings.Replace(statusOf("p", "", inForce), `"conditions"`, `"problems":[{"severity":"mistake","field":"spec.validations[0]","what":"no ConfigMap has metdata"}],"conditions"`, 1)
		}, cli.ExitNegative, []string{
			"all policies are enforced, with 1 problem\n", "problem: ClusterObjectPolicy p: it cannot do what it says: spec.validations[0]: no ConfigMap has metdata; mend it, or have it decide nothing until then: kubectl patch clusterobjectpolicy/p ",
		}},
		{"after an uninstall", func(c *protectedCluster) {
			c.unregistered, c.probe, c.pods, c.policies = "webhookconfigurations/usher", "", "", statusOf("one", "", `{"type":"Enforced","status":"False","reason":"Uninstalled","message":"x","lastTransitionTime":"2030-01-31T12:00:00Z"}`)
		}, cli.ExitNegative, []string{
			"nothing is enforced since 2030-01-31T12:00:00Z: Usher was uninstalled; policies are in force again when it is installed (docs/install.md)\n",
			"problem: no replica runs in namespace usher-system (name another one with --usher-namespace), and no webhook configurations usher exist\nnot known",
		}},
		{"after it was ended, and what was registered is deleted", func(c *protectedCluster) {
			c.unregistered, c.probe, c.pods, c.policies = "webhookconfigurations/usher", "", "", statusOf("one", "", inForce)
		}, cli.ExitNegative, []string{
			"nothing is enforced: no replica runs, and no webhook configurations exist: Usher was ended, or is not installed; start it, and it registers\n",
		}},
		{"before it is installed", func(c *protectedCluster) {
			c.unregistered, c.probe, c.pods, c.policies = "webhookconfigurations/usher", "", "", ""
		}, cli.ExitNegative, []string{"nothing is enforced: Usher is not installed (docs/install.md says how)\n"}},
		{"some fail open in an outage", func(c *protectedCluster) { c.pods, c.probe, c.mutates = endingPod, "", "Ignore" }, cli.ExitNegative, []string{
			"writes of pods, deployments, services and 2 more are refused, others are admitted unchecked: API servers get no answer of Usher\n",
			"API servers refuse the requests of validate, validate-policies (Fail), and admit those of mutate (Ignore)\n",
		}},
		{"a user of one namespace", func(c *protectedCluster) { c.forbidden, c.tenant, c.tenants = "/", "/namespaces/shop/", 1 }, cli.ExitUnusable, []string{
			"as a user of one namespace you see the policies of namespace shop, and not whether the cluster is protected; policies of namespaces have 1 problem of their own\n  policies ",
			"problem of a namespace: ObjectPolicy shop/p: not enforced", "\nnot known: the cluster: an administrator may read",
		}},
		{"of one namespace, with another one in the kubeconfig", func(c *protectedCluster) {
			c.forbidden, c.tenant, c.args = "/", "/namespaces/lab/", []string{"-n", "lab"}
		}, cli.ExitOK, []string{"as a user of one namespace you see the policies of namespace lab, ", "'usher watch -n lab' (needs the Role usher-connect, or --server) shows decisions"}},
		{"of one namespace, which has problems", func(c *protectedCluster) {
			c.forbidden, c.tenant, c.tenants, c.args = "/", "/namespaces/shop/", 1, []string{"-n", "shop"}
		}, cli.ExitNegative, []string{"problem of a namespace: ObjectPolicy shop/p: not enforced"}},
		{"problems of other namespaces are left out", func(c *protectedCluster) { c.tenants, c.args = 1, []string{"-n", "lab"} }, cli.ExitOK, []string{
			"the cluster is protected as its policies say\n",
		}},
		{"a CA of before", func(c *protectedCluster) { c.otherCA = "x" }, cli.ExitNegative, []string{"problem: the webhook validate-policies trusts another CA than the webhook mutate; a replica that runs registers within half a minute\n"}},
		{"one without a CA", func(c *protectedCluster) { c.otherCA = none }, cli.ExitNegative, []string{"problem: the webhook validate-policies has no CA bundle, though others have one; a replica that runs registers within half a minute\n"}},
		{"the first without a CA, and nobody is asked", func(c *protectedCluster) { c.otherCA, c.ca, c.probe = c.ca, "", "" }, cli.ExitNegative, []string{
			"problem: the webhook mutate has no CA bundle, though others have one; a replica that runs registers within half a minute\n",
			"half a minute\nproblem: API servers do not call Usher: ",
		}},
		{"an entry that is gone", func(c *protectedCluster) { c.removed = "validate" }, cli.ExitNegative, []string{
			"problem: the webhook validate is missing, and what it is for is not sent to Usher: somebody has removed it; a replica that runs registers within half a minute\n",
		}},
		{"no CA", func(c *protectedCluster) { c.ca = "x" }, cli.ExitNegative, []string{"problem: the CA bundle of the webhooks has no certificate that can be read\n"}},
		{"policies", func(c *protectedCluster) {
			c.policies = strings.Join([]string{
				statusOf("off", `"suspend":true`, inForce, `{"type":"Working","status":"False","reason":"RuleFails","message":"no such key"}`),
				statusOf("new", ""),
				statusOf("old", "", `{"type":"Enforced","status":"True","reason":"LastGoodVersion","message":"generation 1"}`),
				statusOf("out", "", `{"type":"Enforced","status":"False","reason":"NotCalled","message":"nobody\nasks"}`),
				statusOf("fails", `"failurePolicy":"Ignore"`, inForce, `{"type":"Working","status":"False","reason":"RuleFails","message":"no such key"}`),
				statusOf("forged", "", inForce, `{"type":"Proven","status":"False","reason":"Unproven","message":"no proof"}`),
				statusOf("lost", "", `{"type":"Enforced","status":"False","reason":"NotEnforced","message":"not in force: no proof"}`, `{"type":"Proven","status":"False","reason":"Unproven","message":"not in force: no proof"}`),
			}, ",")
		}, cli.ExitNegative, []string{
			"not everything is enforced: 7 problems\n", "policies       3 of 7 enforced, 1 failing, 2 unproven, 1 suspended\n                 1 policy lets pass what it fails on: ClusterObjectPolicy fails\n",
			"problem: ClusterObjectPolicy off: suspended: it decides nothing\n", "problem: ClusterObjectPolicy new: not enforced: Usher has not written its status\n",
			"problem: ClusterObjectPolicy old: an older version is enforced: generation 1\n", "problem: ClusterObjectPolicy out: not enforced: NotCalled: nobody asks\n",
			"problem: ClusterObjectPolicy fails: failing: no such key; to have it decide nothing until it is mended: kubectl patch clusterobjectpolicy/fails --type merge -p '{\"spec\":{\"suspend\":true}}'\n",
			"problem: ClusterObjectPolicy lost: unproven: not in force: no proof;",
			"problem: ClusterObjectPolicy forged: unproven: no proof; look at what it allows, then: usher authz adopt\n",
		}},
		{"policies that nobody has asked", func(c *protectedCluster) {
			const unasked = `{"type":"Enforced","status":"Unknown","reason":"NotVerified","message":"none has asked"}`
			c.policies = statusOf("one", "", unasked) + "," + statusOf("two", "", unasked) + "," + statusOf("three", "", inForce)
		}, cli.ExitUnusable, []string{
			"whether 2 policies are enforced is not known\n",
			"policies       1 of 3 enforced, 0 failing, 0 unproven, 0 suspended; 2 of which it is not known\n",
			"not known: 2 policies: whether it is enforced: none has asked (ClusterObjectPolicy one, ClusterObjectPolicy two)\n",
		}},
		{"policies that are in force in an older version", func(c *protectedCluster) {
			c.policies = statusOf("old", "", `{"type":"Enforced","status":"True","reason":"LastGoodVersion","message":"generation 1"}`)
		}, cli.ExitNegative, []string{"all policies are enforced, with 1 problem\n", "1 of 1 enforced"}},
		{"policies that are in force and fail", func(c *protectedCluster) {
			const fails = `{"type":"Working","status":"False","reason":"RuleFails","message":"no such key"}`
			c.policies = statusOf("one", "", inForce, fails) + "," + statusOf("two", "", inForce, fails)
		}, cli.ExitNegative, []string{"2 policies fail on requests\n", "policies       2 of 2 enforced, 2 failing"}},
		{"tenants hide nothing", func(c *protectedCluster) { c.tenants, c.policies = 60, statusOf("out", "") }, cli.ExitNegative, []string{
			"not everything is enforced: 1 problem; policies of namespaces have 60 problems of their own\n",
			"suspended\n  decisions      not known\n  last decision  not known\nproblem: ClusterObjectPolicy out: not enforced",
			"problem of a namespace: 60 policies: not enforced: Usher has not written its status (ObjectPolicy shop/p, ObjectPolicy shop/p, ObjectPolicy shop/p and 57 more)\n",
		}},
		{"tenants alone do not make the exit status", func(c *protectedCluster) { c.tenants = 1 }, cli.ExitOK, []string{
			"the cluster is protected as its policies say; policies of namespaces have 1 problem of their own\n", "problem of a namespace: ObjectPolicy shop/p: not enforced: Usher",
		}},
		{"no policies", func(c *protectedCluster) { c.policies = "" }, cli.ExitOK, []string{"API servers call Usher: no policies yet\n"}},
		{"many problems", func(c *protectedCluster) {
			var all []string
			for i := range 60 {
				all = append(all, statusOf("p", "", fmt.Sprintf(`{"type":"Enforced","status":"False","reason":"NotCalled","message":"%d"}`, i)))
			}
			c.policies = strings.Join(all, ",")
		}, cli.ExitNegative, []string{"not enforced: NotCalled: 49\nand more: -o json lists all\n"}},
		{"no right to ask", func(c *protectedCluster) { c.forbidden = "/usher-probe" }, cli.ExitOK, []string{"calls          not known\n", "not known: whether API servers call Usher: no rights: "}},
		{"no right to list pods", func(c *protectedCluster) { c.forbidden = "/pods" }, cli.ExitOK, []string{"not known: find replicas: "}},
		{"no right to anything", func(c *protectedCluster) { c.forbidden = "/" }, cli.ExitUnusable, []string{
			"it cannot be told whether the cluster is protected\n", "replicas       not known\n", "webhooks       not known\n", "policies       not known\n", "not known: policies: ",
		}},
		{"no right to read some kinds of policies", func(c *protectedCluster) { c.forbidden = "/objectpolicies" }, cli.ExitOK, []string{"0 suspended; of other kinds it is not known\n", "not known: policies: "}},
		{"exemptions", func(c *protectedCluster) {
			const valid = `,"status":{"conditions":[{"type":"Valid","status":"True","reason":"Valid"}]}}`
			exemption := strings.TrimSuffix(exemption, "}") + valid
			all := strings.Replace(exemption, "END", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), 1)
			c.exemptions = strings.Join([]string{
				strings.Replace(strings.Replace(all, "NAME", "shop-for-an-hour", 1), "POLICY", "*", 1),
				strings.Replace(strings.Replace(strings.Replace(exemption, "NAME", "of-one-policy", 1), "POLICY", "one", 1), "END", "2099-06-30T00:00:00Z", 1),
				strings.Replace(strings.Replace(strings.Replace(exemption, "NAME", "over", 1), "POLICY", "*", 1), "END", "2020-06-30T00:00:00Z", 1),
			}, ",")
		}, cli.ExitOK, []string{
			"1 of 1 enforced", "last decision  not known\nlook at: ClusterPolicyExemption shop-for-an-hour: exempts all requests of namespace shop from all policies of kind ClusterObjectPolicy until 20",
			"Z: the checkout is down (owner: team-shop)\n  kubectl get clusterpolicyexemption/shop-for-an-hour -o yaml\nnot known: ",
		}},
		{"exemptions that are not in force", func(c *protectedCluster) {
			lost := strings.Replace(strings.Replace(strings.Replace(exemption, "POLICY", "one", 1), "NAME", "lost", 1), "END", "2099-06-30T00:00:00Z", 1)
			wrong := strings.Replace(lost, "lost", "wrong", 1)
			lost = strings.TrimSuffix(lost, "}") + `,"status":{"conditions":[{"type":"Valid","status":"False","reason":"NotEnforced","message":"x"},{"type":"Proven","status":"False","reason":"Unproven","message":"not in force: no proof"}]}}`
			wrong = strings.TrimSuffix(wrong, "}") + `,"status":{"conditions":[{"type":"Valid","status":"False","reason":"NotEffective","message":"there is no ClusterObjectPolicy one"}]}}`
			unseen := strings.Replace(strings.Replace(strings.Replace(exemption, "POLICY", "*", 1), "NAME", "unseen", 1), "END", "2099-06-30T00:00:00Z", 1)
			c.exemptions = lost + "," + wrong + "," + unseen
		}, cli.ExitOK, []string{
			"look at: ClusterPolicyExemption lost: exempts nothing: Unproven: not in force: no proof; if it is right: usher authz adopt clusterpolicyexemption/lost\n  kubectl get clusterpolicyexemption/lost -o yaml\n",
			"look at: ClusterPolicyExemption wrong: exempts nothing: NotEffective: there is no ClusterObjectPolicy one\n",
			"look at: ClusterPolicyExemption unseen: not known whether it is in force: Usher has not written its status\n",
		}},
		{"warnings", func(c *protectedCluster) {
			var all []string
			for i := range 4 {
				all = append(all, strings.Replace(statusOf(fmt.Sprint("p", i), "", inForce), `"conditions"`, `"problems":[{"severity":"warning","field":"spec.validations[0]","what":"it refuses\nall"}],"conditions"`, 1))
			}
			c.policies = strings.Join(all, ",")
		}, cli.ExitOK, []string{
			"0 suspended; 4 with warnings\n",
			"look at: ClusterObjectPolicy p2: warning: spec.validations[0]: it refuses all\n  kubectl get clusterobjectpolicy/p2 -o jsonpath='{.status.problems}'\nnot known: ",
		}},
		{"those that may lock out come first", func(c *protectedCluster) {
			var all []string
			for i := range 5 {
				what := `{"severity":"warning","field":"spec","what":"it refuses all"}`
				if i == 4 {
					what += `,{"severity":"warning","field":"spec.validations[0]","what":"the rule refuses a request without which a cluster cannot recover: a kubelet registers its node"}`
				}
				all = append(all, strings.Replace(statusOf(fmt.Sprint("p", i), "", inForce), `"conditions"`, `"problems":[`+what+`],"conditions"`, 1))
			}
			c.policies = strings.Join(all, ",")
		}, cli.ExitOK, []string{
			"0 suspended; 5 with warnings, 1 of which may keep the cluster from recovering\n",
			"not known\nlook at: ClusterObjectPolicy p4: warning: spec.validations[0]: the rule refuses a request without which a cluster cannot recover: a kubelet registers its node\n  kubectl get clusterobjectpolicy/p4 -o jsonpath='{.status.problems}'\nlook at: ClusterObjectPolicy p0: warning: ",
		}},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			c := healthy()
			row.change(c)
			api := httptest.NewServer(c)
			t.Cleanup(api.Close)
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}], current-context: c, users: [{name: u, user: {}}]}", api.URL)
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, says bytes.Buffer
			cmd := observe.Status(cli.Streams{Out: &out, Err: &says})
			cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig}, c.args...))
			cmd.SetErr(io.Discard)
			cmd.SetOut(io.Discard)
			status := cli.ExitOK
			switch err := cmd.ExecuteContext(t.Context()); {
			case errors.Is(err, cli.ErrNegative):
				status = cli.ExitNegative
			case err != nil:
				status = cli.ExitUnusable
				says.WriteString(err.Error())
			}
			if status != row.status {
				t.Errorf("status %d: %s", status, says.String())
			}
			for _, text := range row.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("expected %q in\n%s", text, out.String())
				}
			}
		})
	}
}
