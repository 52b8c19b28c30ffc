package e2e

import (
	"sync"
	"testing"
	"time"
)

// opening is a cluster in which opening something is answered in one way, and what was asked last.
func opening(answer object) (c *cluster, asked func() object) {
	var mu sync.Mutex
	var last object
	c = full()
	c.set("open", func(body object) any {
		mu.Lock()
		defer mu.Unlock()
		last = body
		return answer
	})
	return c, func() object {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// refused shows a request on the Live page that was refused, of an object that has no name yet.
func (p *page) refused(c *cluster) {
	p.t.Helper()
	p.visit(behind(p.t, c), "live")
	p.says("#live .counts", "60 shown")
	d := denied(700)
	d["name"] = ""
	c.send(event("decision", d))
	p.says("#live-rows-0", "Pod")
	p.click("#live-rows-0")
	p.within(15*time.Second, `document.querySelector("#play") && !document.querySelector("#detail .waiting")`)
}

// TestOpensARefusedRequestAsItCame: where servers record, a request that was refused is decided again as it came, with the
// object and the groups of the user, and can be tried in the playground.
func TestOpensARefusedRequestAsItCame(t *testing.T) {
	c, asked := opening(object{
		"state": object{
			"policies": ownerPolicy, "object": pod, "operation": "CREATE",
			"user": object{"name": "system:serviceaccount:kube-system:replicaset-controller", "groups": []any{"system:serviceaccounts", "system:authenticated"}},
		},
		"lacks": none, "commands": none, "missing": none,
	})
	p := browser(t, 1280, 800, "light")
	p.refused(c)
	p.says("#detail", "label owner is required")
	if gaps := p.eval(`document.querySelectorAll("#detail .lack, #detail .missing").length`); gaps != "0" {
		t.Errorf("the page says %s times that something is missing of a request that was recorded", gaps)
	}
	of, _ := asked()["request"].(object)
	if of["uid"] != "5d0a0f5e-700" || of["namespace"] != "shop" || of["replica"] != "usher-6c9f-x2k4l" {
		t.Errorf("the server is asked for the recording %v", of)
	}
	p.click("#play")
	p.says("#verdict", "Denied")
	p.says("#request .cm-content", "example.com/web:1")
	p.click("#request-tab-user")
	p.within(5*time.Second, `document.querySelector("#request textarea").value === "system:serviceaccounts\nsystem:authenticated"`)
	// What is changed is decided.
	p.click("#request-tab-object")
	p.within(5*time.Second, `document.querySelector("#request .cm-content")`)
	p.eval(`document.querySelector("#request .cm-content").focus()`)
	p.press("Control+a", "Delete")
	p.paste("{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {owner: a}}, spec: {containers: [{name: web, image: example.com/web:1}]}}")
	p.says("#verdict", "Allowed")
}

// TestSaysWhatIsNotRecorded: where servers do not record, the page says what it lacks and how to have it, and the
// playground has the policies.
func TestSaysWhatIsNotRecorded(t *testing.T) {
	c, asked := opening(object{
		"state":    object{"policies": ownerPolicy, "operation": "CREATE", "user": object{"name": "jane"}},
		"lacks":    []any{"the groups of the user are not known: add them if policies read them"},
		"commands": none,
		"missing":  []any{object{"what": "recordings", "text": "Usher keeps the names of requests, and what is in those that it refuses only with usher serve --record-memory: write the object that was refused into the playground", "run": ""}},
	})
	p := browser(t, 1280, 800, "dark")
	p.refused(c)
	p.says("#detail .missing", "only with usher serve --record-memory")
	p.says("#detail .lack", "The groups of the user are not known")
	if wrong := p.eval(`document.querySelectorAll("#detail .verdict").length`); wrong != "0" {
		t.Errorf("the page has %s verdicts about an object that nobody knows", wrong)
	}
	if asked()["object"] != nil {
		t.Errorf("the server is asked for an object without a name: %v", asked())
	}
	p.click("#play")
	p.says("#policies .cm-content", "require-owner")
	p.click("#request-tab-object")
	p.within(5*time.Second, `document.querySelector("#request .cm-content")`)
	p.eval(`document.querySelector("#request .cm-content").focus()`)
	p.paste("{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: web, image: example.com/web:1}]}}")
	p.says("#verdict", "Denied")
}
