package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A cluster represents one behind usher console: it answers what is below live/, in the words of the API, and
// leaves all else to the console.
type cluster struct {
	mu sync.Mutex
	// answers are bodies by path; a text that begins with "!" is an error.
	answers map[string]any
	// streams get events of live/decisions.
	streams map[chan string]bool
	// past is sent to each stream first.
	past []string
	// asked are the queries of streams.
	asked []string
}

type object = map[string]any

func ref(kind, namespace, name string) object {
	r := object{"kind": kind, "name": name}
	if namespace != "" {
		r["namespace"] = namespace
	}
	return r
}

var none = []any{}

// behind starts usher console with a cluster behind it, which arguments are for.
func behind(t *testing.T, c *cluster, args ...string) *server {
	t.Helper()
	console := serve(t, args...)
	address, err := url.Parse(console.address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address.Host})
			r.Out.Host = address.Host
			r.Out.Header.Del("Origin")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, live := strings.CutPrefix(r.URL.Path, "/api/v1/live")
		if !live {
			proxy.ServeHTTP(w, r)
			return
		}
		c.serve(w, r, strings.TrimPrefix(path, "/"))
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return &server{address: front.URL + "/?" + address.RawQuery, command: console.command}
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request, path string) {
	if path == "decisions" {
		c.stream(w, r)
		return
	}
	c.mu.Lock()
	answer, found := c.answers[path]
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	text, isError := answer.(string)
	switch {
	case !found:
		w.WriteHeader(http.StatusNotFound)
		answer = object{"error": "there is nothing at this path"}
	case isError:
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = object{"error": text}
	}
	if f, ok := answer.(func(object) any); ok {
		var body object
		_ = json.NewDecoder(r.Body).Decode(&body)
		answer = f(body)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *cluster) stream(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 1000)
	c.mu.Lock()
	c.streams[events] = true
	c.asked = append(c.asked, r.URL.RawQuery)
	past := c.past
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.streams, events)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for _, e := range past {
		_, _ = fmt.Fprint(w, e)
	}
	_ = control.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			_, _ = fmt.Fprint(w, e)
			_ = control.Flush()
		}
	}
}

// event is one of a stream.
func event(kind string, data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return "event: " + kind + "\ndata: " + string(text) + "\n\n"
}

// send sends events to all streams.
func (c *cluster) send(events ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.streams {
		for _, e := range events {
			s <- e
		}
	}
}

func (c *cluster) set(path string, answer any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = answer
}

// decision is the n-th of a stream.
func decision(n int, change object) object {
	d := object{
		"replica": "usher-6c9f-x2k4l", "sequence": n, "time": time.Date(2030, 1, 1, 12, 0, 0, n*7_000_000, time.UTC).Format(time.RFC3339Nano),
		"verdict": "allow", "tookSeconds": 0.000215, "phase": "validate", "operation": "UPDATE", "apiVersion": "v1", "kind": "ConfigMap",
		"resource": "configmaps", "namespace": "shop", "name": fmt.Sprintf("settings-%d", n), "user": "jane", "uid": fmt.Sprintf("5d0a0f5e-%d", n),
		"explain": "usher explain --from-cluster configmap/settings -n shop --as jane", "exempt": "",
	}
	maps.Copy(d, change)
	return d
}

func denied(n int) object {
	return decision(n, object{
		"verdict": "deny", "code": 422, "operation": "CREATE", "apiVersion": "v1", "kind": "Pod", "resource": "pods", "name": fmt.Sprintf("cart-%d", n),
		"user":   "system:serviceaccount:kube-system:replicaset-controller",
		"rules":  []any{object{"policy": ref("ClusterObjectPolicy", "", "require-owner"), "rule": "spec.validations", "outcome": "rejected", "validations": []any{"spec.validations[0]"}}},
		"exempt": "usher exempt --from-cluster pod/cart -n shop --reason WHY --owner WHO",
	})
}

const ownerPolicy = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata:
  name: require-owner
spec:
  description: Says whom to ask about an object.
  severity: medium
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}
  validations:
  - name: owner
    expression: "'owner' in object.metadata.?labels.orValue({})"
    message: label owner is required
    fieldPath: metadata.labels
`

func policyRow(kind, namespace, name, state, why string) object {
	return object{
		"ref": ref(kind, namespace, name), "group": "usher.dev", "action": "Deny", "kinds": "pods, deployments.apps", "severity": "medium", "category": "Ownership",
		"title": "Says whom to ask about an object", "state": state, "why": why, "problems": 0, "foreign": false, "created": "2029-11-02T08:00:00Z",
	}
}

func exemption(namespace, name string) object {
	return object{
		"ref": ref("ClusterPolicyExemption", namespace, name), "policies": []any{object{"kind": "ClusterObjectPolicy", "name": "require-owner", "validations": []any{"owner"}}},
		"reason": "the import is moved in May", "owner": "team-shop", "expires": "2030-05-31T00:00:00Z", "expired": false, "suspended": false,
		"uses": 12, "lastUsed": "2030-01-01T11:00:00Z", "state": "enforced", "problem": "",
	}
}

func candidate(name string) object {
	return object{
		"ref": ref("ClusterPolicyCandidate", "", name), "state": "enforced", "since": "2029-12-30T08:00:00Z", "countedAt": "2029-12-31T23:59:00Z", "seen": 18204, "newlyDenied": 37, "newlyAllowed": 0,
		"warned": 4, "changed": 0, "errors": 0, "noOpinion": 0, "skipped": 12, "policies": []any{ref("ClusterObjectPolicy", "", "require-owner")},
		"replaces": ref("ClusterObjectPolicy", "", "require-owner"), "remove": false, "problem": "",
	}
}

func violation(n int) object {
	statuses, levels := []string{"fail", "warn", "fail", "skip", "error"}, []string{"high", "medium", "low", "critical", ""}
	policies := []string{"require-owner", "image-tags", "non-root", "requests-and-limits"}
	messages := []string{"label owner is required", "images need a tag other than latest", "set runAsNonRoot to true", "set requests and limits for cpu and memory"}
	return object{
		"object": object{"apiVersion": "v1", "kind": []string{"Pod", "Deployment", "CronJob"}[n%3], "namespace": []string{"shop", "lab", "data", "web"}[n%4], "name": fmt.Sprintf("cart-%05d", n)},
		"policy": ref("ClusterObjectPolicy", "", policies[n%4]), "rule": "spec.validations[0]", "validation": "owner", "status": statuses[n%5],
		"message": messages[n%4], "field": "metadata.labels", "category": "Ownership", "severity": levels[n%5], "actions": []string{"Deny"},
	}
}

// violationsOf answers with n, in pages.
func violationsOf(n int) func(body object) any {
	const page = 2000
	return func(body object) any {
		first := 0
		if text, _ := body["continue"].(string); text != "" {
			_, _ = fmt.Sscan(text, &first)
		}
		items := []any{}
		for i := first; i < min(first+page, n); i++ {
			items = append(items, violation(i))
		}
		next, kinds := "", none
		if first+page < n {
			next = fmt.Sprint(first + page)
		}
		if first == 0 {
			kinds = []any{object{"version": "v1", "resource": "pods", "kind": "Pod", "objects": n, "backlog": 0, "complete": true}}
		}
		return object{
			"items": items, "summary": object{"pass": 100, "fail": 1, "warn": 1, "error": 0, "skip": 0}, "continue": next, "restart": false,
			"kinds": kinds, "replica": "usher-6c9f-x2k4l", "missing": none,
		}
	}
}

// full returns a cluster in which there is something of everything.
func full() *cluster {
	c := &cluster{answers: map[string]any{}, streams: map[chan string]bool{}}
	policies := []any{
		policyRow("ClusterObjectPolicy", "", "require-owner", "enforced", ""),
		policyRow("ClusterObjectPolicy", "", "image-tags", "failing", "2 of 3 replicas do not enforce this version: undeclared reference to 'endWith'"),
		policyRow("ObjectPolicy", "shop", "no-passwords", "suspended", "suspended until 2030-02-01"),
		policyRow("ValidatingAdmissionPolicy", "", "replicas", "unproven", "the writer may not read namespaces"),
		policyRow("ClusterValidatePolicy", "", "max-replicas", "pending", "1 of 3 replicas enforces this version"),
	}
	for i := range 30 {
		policies = append(policies, policyRow("ClusterObjectPolicy", "", fmt.Sprintf("pod-security-%02d", i), "enforced", ""))
	}
	c.set("", object{"enabled": true, "namespace": "", "cluster": "production-eu", "user": "jane", "replicas": []any{object{"name": "usher-6c9f-x2k4l"}}, "missing": none})
	c.set("policies", object{"policies": policies, "candidates": []any{candidate("owner-deny")}, "exemptions": []any{exemption("", "import")}, "missing": none})
	c.set("policy", object{
		"policy": policyRow("ClusterObjectPolicy", "", "require-owner", "enforced", ""), "source": ownerPolicy, "status": "",
		"problems":   []any{object{"message": "the field description is longer than one line", "line": 6, "column": 3, "severity": "warning", "field": "spec.description"}},
		"conditions": []any{object{"type": "Enforced", "status": "True", "reason": "Enforced", "message": "3 replicas enforce this version", "since": "2029-12-30T08:00:00Z"}},
		"replicas": []any{
			object{"name": "usher-6c9f-x2k4l", "renewed": "2030-01-01T12:00:00Z", "agrees": true, "failing": "", "failures": 0},
			object{"name": "usher-6c9f-p9d7s", "renewed": "2030-01-01T11:59:58Z", "agrees": false, "failing": "compile: the cluster has no kind Widget", "failures": 12},
		},
		"selects": []any{"CREATE, UPDATE of pods (v1)", "in all namespaces"}, "reads": []any{object{"as": "object.metadata.labels", "what": "labels of the object", "right": ""}},
		"description": "Says whom to ask about an object. Labels are read by the inventory.", "links": []any{"https://example.com/owners"},
		"exemptions": []any{exemption("", "import")}, "candidates": []any{candidate("owner-deny")},
		"commands": []any{
			object{"title": "Suspend it", "run": "kubectl annotate clusterobjectpolicy require-owner usher.dev/suspend=true"},
			object{"title": "see what it says about objects that exist", "run": "usher audit --policy require-owner"},
		},
		"missing": []any{object{"what": "cost", "text": "what it costs is in metrics: rate(usher_policy_duration_seconds_total[5m])", "run": ""}},
	})
	c.set("violations", violationsOf(240))
	c.set("open", func(object) any {
		return object{
			"state":    object{"policies": ownerPolicy, "object": pod, "user": object{"name": "jane"}},
			"lacks":    []any{"The request is not kept: this is the object as it is now."},
			"commands": []any{object{"title": "Exempt it", "run": "usher exempt --from-cluster pod/web -n shop --reason WHY --owner WHO"}, object{"title": "Explain it in a shell", "run": "usher explain --from-cluster pod/web -n shop"}},
			"missing":  none,
		}
	})
	for i := range 60 {
		d := decision(i, nil)
		switch i % 6 {
		case 1:
			d = denied(i)
		case 3:
			d["changed"] = true
			d["rules"] = []any{object{"policy": ref("ClusterObjectPolicy", "", "add-team"), "rule": "spec.mutations", "outcome": "changed"}}
		case 5:
			d["warned"] = true
			d["rules"] = []any{object{"policy": ref("ObjectPolicy", "shop", "no-passwords"), "rule": "spec.validations", "outcome": "warned"}}
		}
		c.past = append(c.past, event("decision", d))
	}
	c.past = append(c.past, event("current", object{"replicas": 3}))
	return c
}
