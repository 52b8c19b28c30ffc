package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// visit loads a view of a page of a server.
func (p *page) visit(s *server, view string) {
	p.t.Helper()
	p.do(chromedp.Navigate(s.address), chromedp.WaitVisible(`#to-live`, chromedp.ByQuery))
	p.turn(view)
}

// turn goes to another view.
func (p *page) turn(view string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("location.hash = %q", "#/"+view))
	p.within(15*time.Second, `document.querySelector("#view-title, #policies .cm-content, .page .empty")`)
}

// TestLiveScreens writes a picture of each state of the views of a cluster to the folder SCREENS, for somebody to look at.
func TestLiveScreens(t *testing.T) {
	folder := os.Getenv("SCREENS")
	if folder == "" {
		t.Skip("SCREENS is not set")
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 1280, 2000} {
			p := browser(t, width, map[int64]int64{320: 640, 1280: 800, 2000: 1000}[width], theme)
			shot := func(state string) {
				var picture []byte
				time.Sleep(400 * time.Millisecond)
				p.do(chromedp.CaptureScreenshot(&picture))
				name := filepath.Join(folder, "live-"+state+"-"+strconv.FormatInt(width, 10)+"-"+theme+".png")
				if err := os.WriteFile(name, picture, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := behind(t, full())
			p.visit(s, "policies")
			p.says(".row-line", "image-tags")
			shot("policies")
			p.turn("policies?tab=candidates")
			p.says(".card", "owner-deny")
			shot("candidates")
			p.turn("policy?kind=ClusterObjectPolicy&name=require-owner")
			p.says(".about-policy", "enforce the same")
			shot("policy")
			p.turn("violations")
			p.within(5e9, `document.querySelector(".row-line")`)
			shot("violations")
			p.turn("violations?group=policy")
			p.within(5e9, `document.querySelector(".row-line.group")`)
			shot("groups")
			p.turn("violations?status=fail")
			p.within(5e9, `document.querySelector(".row-line")`)
			p.eval(`document.querySelector(".row-line").click()`)
			p.says("#detail", "Rules")
			shot("violation")
			p.turn("live")
			p.says(".row-line", "settings-")
			shot("live")
			p.eval(`document.querySelectorAll(".row-line")[4].click()`)
			p.says("#detail", "Explanation")
			shot("decision")

			n := nobody()
			s = behind(t, n)
			p.visit(s, "policies")
			for _, view := range []string{"policies", "violations", "live"} {
				p.turn(view)
				shot("none-" + view)
			}
			for _, path := range []string{"policies", "policy", "violations"} {
				n.set(path, "read clusterobjectpolicies: the server does not respond")
			}
			for _, view := range []string{"policies?namespace=x", "policy?kind=ClusterObjectPolicy&name=require-owner", "violations?namespace=x"} {
				p.turn(view)
				name, _, _ := strings.Cut(view, "?")
				shot("error-" + name)
			}
			signal(t, s, syscall.SIGSTOP)
			p.says(".banner", "lost")
			shot("lost")
			signal(t, s, syscall.SIGCONT)
			s = behind(t, &cluster{answers: map[string]any{}})
			p.visit(s, "live")
			shot("off")
		}
	}
}

func signal(t *testing.T, s *server, which syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(which); err != nil {
		t.Fatal(err)
	}
}

// nobody returns a cluster of which the user sees nothing.
func nobody() *cluster {
	gap := func(what, resource string) object {
		return object{
			"what": what, "text": "You may not list " + resource + " in all namespaces: name one, or have an administrator run",
			"run": "kubectl create clusterrolebinding see-" + what + " --clusterrole=usher-view --user=jane",
		}
	}
	c := &cluster{answers: map[string]any{}, streams: map[chan string]bool{}}
	c.set("", object{"enabled": true, "namespace": "", "cluster": "production-eu", "user": "jane", "replicas": none, "missing": none})
	c.set("policies", object{"policies": none, "candidates": none, "exemptions": none, "missing": []any{gap("policies", "clusterobjectpolicies.usher.dev"), gap("exemptions", "policyexemptions.usher.dev")}})
	c.set("violations", object{"items": none, "summary": nil, "continue": "", "restart": false, "kinds": none, "replica": "", "missing": []any{gap("violations", "auditresults.usher.dev")}})
	c.past = []string{event("gap", gap("decisions", "decisions.usher.dev"))}
	return c
}

// TestExemptsAViolation finds a violation by mouse, sees why, and copies the line that writes an exemption; then it tries the object in the playground.
func TestExemptsAViolation(t *testing.T) {
	c := full()
	s := behind(t, c)
	p := browser(t, 1280, 800, "light")
	p.visit(s, "policies")
	if search := p.eval("location.search"); search != "" {
		t.Errorf("the address has %q, and with it the token", search)
	}
	p.click("#to-violations")
	p.within(15*time.Second, `document.querySelectorAll("#violation-rows .row-line").length > 5`)
	p.eval(`[...document.querySelectorAll(".facet label")].find(l => l.innerText.startsWith("require-owner")).querySelector("input").click()`)
	p.says(".counts", "60 of 240")
	p.click("#violation-rows-2")
	p.says("#detail", "label owner is required")
	p.says("#detail", "Denied")
	p.click("#exempt-reason")
	p.paste("it's moved; rm -rf ~")
	p.click("#exempt-owner")
	p.paste("team-a")
	p.says("#detail .line pre", `--reason 'it'\''s moved; rm -rf ~' --owner team-a`)
	p.eval(`navigator.clipboard.writeText = text => (window.copied = text, Promise.resolve())`)
	p.click("#detail .exempt .line button")
	p.within(5*time.Second, `window.copied.startsWith("usher exempt --from-cluster") && window.copied.endsWith("--owner team-a")`)
	p.click("#play")
	p.says("#verdict", "Denied")
	p.says("#policies .cm-content", "require-owner")
}

// TestReadsAClusterByKeyboard goes through all views without the mouse.
func TestReadsAClusterByKeyboard(t *testing.T) {
	c := full()
	s := behind(t, c)
	p := browser(t, 1280, 800, "dark")
	p.visit(s, "policies")
	p.within(15*time.Second, `document.querySelector("#policy-rows .row-line")`)
	p.press("g")
	p.within(5*time.Second, `document.activeElement.id === "policy-rows"`)
	p.press("ArrowDown", "Enter")
	p.says(".about-policy", "enforce the same")
	p.within(5*time.Second, `document.querySelector(".source .cm-lintRange")`)

	p.press("3")
	p.within(15*time.Second, `document.querySelector("#violation-rows .row-line")`)
	p.press("/")
	p.within(5*time.Second, `document.activeElement.id === "search"`)
	p.paste("cart-00010")
	p.says(".counts", "1 of 240")
	p.press("Tab")
	p.eval(`document.activeElement.blur()`)
	p.press("g", "Enter")
	p.says("#detail", "cart-00010")
	p.within(5*time.Second, `document.activeElement.id === "detail"`)
	p.press("Escape")
	p.within(5*time.Second, `!document.querySelector("#detail") && document.activeElement.id === "violation-rows"`)

	p.press("4")
	p.says(".row-line", "settings-")
	p.press("g", "End")
	p.within(5*time.Second, `document.querySelector("#live-rows").scrollTop > 0`)
	p.press("Home", "Enter")
	p.within(5*time.Second, `document.querySelector("#detail")`)
	p.press("Escape", "?")
	p.says("dialog", "go to the rows")
	p.press("Escape")
}

// TestNothingMovesWhileOneReads has decisions wait while the stream is read, and counts what is lost.
func TestNothingMovesWhileOneReads(t *testing.T) {
	c := full()
	s := behind(t, c)
	p := browser(t, 1280, 800, "light")
	p.visit(s, "live")
	p.says("#live .counts", "60 shown")
	// At the top, what is new comes at once.
	c.send(event("decision", denied(100)))
	p.says("#live-rows-0", "cart-100")
	p.eval(`document.querySelector("#live-rows").scrollTop = 300`)
	p.within(5*time.Second, `document.querySelector("#live-rows").scrollTop === 300`)
	first := p.eval(`document.querySelector("#live-rows-9").innerText`)
	for i := range 12 {
		c.send(event("decision", denied(200+i)))
	}
	p.says("#new", "12 new")
	if now := p.eval(`document.querySelector("#live-rows-9").innerText`); now != first {
		t.Errorf("row 9 was %q, and is %q", first, now)
	}
	p.click("#new")
	p.says("#live-rows-0", "cart-211")
	p.within(5*time.Second, `!document.querySelector("#new") && document.querySelector("#live-rows").scrollTop === 0`)

	p.click("#pause")
	c.send(event("decision", denied(300)), event("lost", object{"replica": "usher-6c9f-x2k4l", "lost": 30}), event("lost", object{"replica": "usher-6c9f-p9d7s", "lost": 7}))
	p.says("#new", "1 new")
	p.says("#lost", "37 decisions were lost")
	c.send(event("notice", object{"replica": "usher-6c9f-p9d7s", "text": "lost: connection refused"}))
	p.says("#live .strip", "connection refused")
	p.click("#pause")
	p.click("#new")
	p.says("#live-rows-0", "cart-300")

	p.eval(`[...document.querySelectorAll(".chip")].find(c => c.innerText === "denied").click()`)
	p.within(5*time.Second, `location.hash.includes("outcome=denied")`)
	p.says("#live .counts", "60 shown")
	c.mu.Lock()
	last := c.asked[len(c.asked)-1]
	c.mu.Unlock()
	if !strings.Contains(last, "outcome=denied") {
		t.Errorf("the server is asked for %s", last)
	}
	// Who leaves the view reads no more.
	p.click("#to-policies")
	deadline := time.Now().Add(5 * time.Second)
	for {
		c.mu.Lock()
		n := len(c.streams)
		c.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are open", n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestTenThousandRows has the page usable with as many violations as an audit lists, and few of them in the document.
func TestTenThousandRows(t *testing.T) {
	c := full()
	answer, shown := violationsOf(10_000), make(chan struct{})
	c.set("violations", func(body object) any {
		if body["continue"] != nil {
			<-shown
		}
		return answer(body)
	})
	s := behind(t, c)
	p := browser(t, 1280, 2000, "light")
	p.visit(s, "policies")
	p.within(15*time.Second, `document.querySelector(".row-line")`)
	t.Logf("policies after %s ms", p.eval(`Math.round(performance.now())`))
	start := time.Now()
	p.turn("violations")
	p.says(".counts", "reading more")
	p.within(5*time.Second, `document.querySelectorAll(".row-line").length > 20`)
	t.Logf("first rows after %v", time.Since(start).Round(time.Millisecond))
	close(shown)
	p.says(".counts", "10\u202f000")
	t.Logf("10,000 rows after %v", time.Since(start).Round(time.Millisecond))
	for _, at := range []int{0, 100_000, 250_000, 359_000} {
		p.eval(fmt.Sprintf(`document.querySelector("#violation-rows").scrollTop = %d`, at))
		p.within(5*time.Second, fmt.Sprintf(`document.querySelector("#violation-rows-%d")`, min(at/36+10, 9999)))
		if n, err := strconv.Atoi(p.eval(`document.querySelectorAll(".row-line").length`)); err != nil || n > 200 {
			t.Errorf("at %d the document has %d rows, and at most 200 are allowed (%v)", at, n, err)
		}
	}
	p.turn("violations?group=policy")
	p.says(".row-line.group", "2\u202f500")
	p.click("#violation-rows-0")
	p.within(5*time.Second, `document.querySelectorAll(".row-line").length > 20`)
	p.eval(`URL.createObjectURL = blob => (blob.text().then(text => (window.exported = text)), "blob:none")`)
	p.eval(`HTMLAnchorElement.prototype.click = function () { window.named = this.download }`)
	p.turn("violations?in=" + "shop" + "&kind=Pod")
	p.within(5*time.Second, `document.querySelectorAll(".chosen li").length === 2`)
	p.click("#export-csv")
	p.within(5*time.Second, `window.exported && window.named === "violations.csv"`)
	if lines := p.eval(`String(window.exported.trim().split("\r\n").length - 1) + " rows, others: " + window.exported.trim().split("\r\n").slice(1).filter(l => !l.includes(",Pod,shop,")).length`); lines != "834 rows, others: 0" {
		t.Errorf("exported: %s", lines)
	}
}

// TestHostileClustersAreTexts has HTML and formulas in every field that a cluster can fill.
func TestHostileClustersAreTexts(t *testing.T) {
	const hostile = `<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>`
	c := full()
	for path, answer := range c.answers {
		if path == "open" {
			c.set(path, func(body object) any { return poisoned(answer.(func(object) any)(body), hostile) })
		} else if f, ok := answer.(func(object) any); ok {
			c.set(path, func(body object) any { return poisoned(f(body), hostile) })
		} else {
			c.set(path, poisoned(answer, hostile))
		}
	}
	bad := poisoned(denied(1), hostile).(object)
	c.past = []string{event("decision", bad), event("lost", object{"replica": hostile, "lost": 1}), event("notice", object{"replica": hostile, "text": hostile}), event("current", object{"replicas": 3})}
	s := behind(t, c)
	p := browser(t, 1280, 800, "light")
	p.visit(s, "policies")
	for _, view := range []string{"policies", "policies?tab=exemptions", "policies?tab=candidates", "policy?kind=ClusterObjectPolicy&name=require-owner", "violations", "violations?group=message", "live"} {
		p.turn(view)
		p.says(".view", "onerror='window.hacked=1'")
		p.eval(`document.querySelector(".row-line:not(.group)")?.click()`)
		if view == "violations" || view == "live" {
			p.says("#detail", "onerror='window.hacked=1'")
		}
		if got := p.eval(`document.querySelectorAll("main img:not(.cm-widgetBuffer), main script").length + "," + window.hacked`); got != "0,undefined" {
			t.Errorf("%s: a text became elements: %s", view, got)
		}
	}
	// Spreadsheets run what begins like a formula.
	c.set("violations", func(object) any {
		return poisoned(violationsOf(1)(nil), "=HYPERLINK(1)")
	})
	p.turn("violations?namespace=x")
	p.says(".row-line", "=HYPERLINK(1)")
	p.eval(`URL.createObjectURL = blob => (blob.text().then(text => (window.exported = text)), "blob:none")`)
	p.eval(`HTMLAnchorElement.prototype.click = () => {}`)
	p.click("#export-csv")
	p.within(5*time.Second, `window.exported?.includes("'=HYPERLINK(1)") && !/(^|,)=/m.test(window.exported)`)
}

// poisoned returns a value with another text in place of all that people write; what the API has words for stays.
func poisoned(value any, text string) any {
	words := map[string]bool{"continue": true, "state": true, "verdict": true, "status": true, "time": true, "since": true, "expires": true, "created": true, "apiVersion": true, "operation": true}
	switch v := value.(type) {
	case object:
		all := object{}
		for key, of := range v {
			if _, isText := of.(string); isText && words[key] {
				all[key] = of
			} else {
				all[key] = poisoned(of, text)
			}
		}
		return all
	case []any:
		all := []any{}
		for _, of := range v {
			all = append(all, poisoned(of, text))
		}
		return all
	case string:
		return text
	}
	return value
}

// TestSaysThatTheClusterIsLost stops the server while a view of the cluster is shown, and lets it go on.
func TestSaysThatTheClusterIsLost(t *testing.T) {
	c := full()
	s := behind(t, c)
	p := browser(t, 1280, 800, "light")
	p.visit(s, "live")
	p.says("#live .counts", "Live")
	start := time.Now()
	signal(t, s, syscall.SIGSTOP)
	p.says(".banner", "lost")
	t.Logf("said after %v", time.Since(start).Round(time.Millisecond))
	p.says("#live .counts", "lost")
	signal(t, s, syscall.SIGCONT)
	p.within(15*time.Second, `!document.querySelector(".banner")`)
	p.says("#live .counts", "Live")
	// What was there before is there once.
	p.says("#live .counts", "60 shown")
	c.send(event("decision", denied(500)))
	p.says("#live-rows-0", "cart-500")
}

// TestNoViolationsOfAccessibilityInACluster runs axe on every view, in both themes: with data, without, and with errors.
func TestNoViolationsOfAccessibilityInACluster(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("..", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("there is no axe-core: make page installs it, with npm")
	}
	views := []string{"policies", "policies?tab=exemptions", "policies?tab=candidates", "policy?kind=ClusterObjectPolicy&name=require-owner", "violations", "violations?group=policy", "violations?status=fail", "live"}
	broken := nobody()
	for _, path := range []string{"policies", "policy", "violations"} {
		broken.set(path, "the server does not respond")
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 1280} {
			t.Run(theme+strconv.FormatInt(width, 10), func(t *testing.T) {
				p := browser(t, width, 800, theme)
				states := map[string]*cluster{"full": full()}
				// Each theme and each width has the others once.
				if (theme == "light") == (width == 320) {
					states["nobody"], states["broken"], states["off"] = nobody(), broken, &cluster{answers: map[string]any{}}
				}
				for state, c := range states {
					p.visit(behind(t, c), "policies")
					p.do(chromedp.Evaluate(string(axe), nil))
					for _, view := range views {
						if state != "full" && strings.Contains(view, "?") && !strings.HasPrefix(view, "policy?") {
							continue
						}
						p.turn(view)
						p.within(15*time.Second, `!document.querySelector(".waiting")`)
						row := p.eval(`document.querySelector(".row-line:not(.group)") !== null && location.hash.match("fail|live") !== null`) == "true"
						if row {
							p.eval(`document.querySelector(".row-line:not(.group)").click()`)
							p.within(15*time.Second, `document.querySelector("#detail") && !document.querySelector(".waiting")`)
						}
						if p.eval(`document.documentElement.scrollWidth > innerWidth`) == "true" {
							t.Errorf("%s, %s: the page is wider than the window", state, view)
						}
						for _, v := range violations(p) {
							t.Errorf("%s, %s: %s", state, view, v)
						}
					}
				}
			})
		}
	}
}
