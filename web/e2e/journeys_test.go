package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const policy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: require-team}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - expression: has(object.metadata.labels) && "team" in object.metadata.labels
    message: MESSAGE
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: require-team}
spec: {policyName: require-team, validationActions: [Deny]}
`

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: example.com/web:1}]}
`

func saying(message string) string { return strings.ReplaceAll(policy, "MESSAGE", message) }

// TestFindsWhyAPodWasRefused opens an example by mouse, and finds its policy again by the sentence alone.
func TestFindsWhyAPodWasRefused(t *testing.T) {
	s := serve(t)
	p := browser(t, 1280, 800, "light")
	p.open(s)
	if search := p.eval("location.search"); search != "" {
		t.Errorf("the address has %q, and with it the token", search)
	}
	p.click("#do-examples")
	p.within(5*time.Second, `document.activeElement.matches("input.big")`)
	p.paste("privileged")
	p.click("#example-0")
	p.within(15*time.Second, `document.querySelector(".cards .said")`)
	sentence := p.eval(`document.querySelector(".cards .said").innerText`)

	p.eval(`sessionStorage.clear(), location.reload()`)
	p.do(chromedp.WaitVisible(`#policies .cm-placeholder`, chromedp.ByQuery))
	p.click("#do-why")
	p.within(5*time.Second, `document.activeElement.matches("dialog textarea")`)
	p.paste(sentence)
	p.click("dialog form button.primary")
	p.says(".match", "usher")
	p.click(".match button.primary")
	p.says("#policies .cm-content", "kind:")
}

// TestWritesAPolicyByKeyboard writes a policy from nothing until its case passes, without the mouse.
func TestWritesAPolicyByKeyboard(t *testing.T) {
	s := serve(t)
	p := browser(t, 1280, 800, "light")
	p.open(s)
	p.write(saying("label team is required"), pod)
	p.says("#verdict", "Denied")
	p.says("#result-panel", "label team is required")

	p.press("Control+s")
	p.within(15*time.Second, `document.querySelector("dialog button.primary:not(:disabled)")`)
	p.eval(`document.querySelector("dialog button.primary").focus()`)
	p.press("Enter")
	p.says(".summary", "1 of 1 cases passed")

	p.turnTo("Policies")
	p.press("Control+a", "Delete")
	p.paste(strings.ReplaceAll(saying("label team is required"), "has(object.metadata.labels) &&", "true ||"))
	p.says(".summary", "1 of 1 cases failed")
	p.press("Control+a", "Delete")
	p.paste(strings.ReplaceAll(saying("label team is required"), "    - {api", "      - {api"))
	p.says(".summary", "1 of 1 cases passed")
	p.press("Shift+Alt+f")
	p.within(5*time.Second, `document.querySelector("#policies .cm-content").innerText.includes("\n    - {api")`)
	p.press("Control+Home")
	p.paste("[")
	p.press("Shift+Alt+f")
	p.says("#policies .cm-said", "the text is not formatted")
	p.press("Escape")
	p.within(5*time.Second, `!document.querySelector("#policies .cm-said")`)
	p.press("Control+z")
	p.says(".summary", "1 of 1 cases passed")
	p.within(5*time.Second, `document.querySelector("#policies .hits")`)

	p.press("Escape", "Tab")
	p.within(5*time.Second, `!document.activeElement.closest("#policies .cm-content")`)
	p.press("?")
	p.says("dialog", "leave an editor")
	p.press("Escape")
	p.within(5*time.Second, `!document.querySelector("dialog")`)
}

// TestOpensAFolder has the policies of a folder at once, puts its objects and cases where they belong, and takes back an example.
func TestOpensAFolder(t *testing.T) {
	folder := t.TempDir()
	const cases = "name: refused\nphase: validate\npolicyFiles: [policies/team.yaml]\n" +
		"request: {operation: CREATE, namespace: shop, object: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}}\nexpect: {allowed: false}\n"
	for name, text := range map[string]string{"policies/team.yaml": saying("label team is required"), "web.yaml": pod, "check.yaml": cases} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, "-p", folder)
	p := browser(t, 1280, 800, "light")
	p.open(s)
	p.says("#policies .cm-content", "label team is required")
	p.says("#result-panel", "a request is needed")
	choose := func(name string) {
		t.Helper()
		p.click("#do-examples")
		p.within(5*time.Second, `document.activeElement.matches("input.big")`)
		p.paste(name)
		p.within(5*time.Second, `document.querySelector("#example-0")`)
		p.press("Enter")
		p.within(15*time.Second, `!document.querySelector("dialog")`)
	}
	choose("web.yaml")
	p.says("#request .cm-content", "kind: Pod")
	p.says("#verdict", "Denied")
	if said := p.eval(`document.querySelector("#result-panel").innerText.split("label team is required").length - 1`); said != "1" {
		t.Errorf("the sentence stands there %s times", said)
	}
	choose("check.yaml")
	p.click("#do-test")
	p.says(".summary", "1 of 1 cases passed")
	choose("privileged")
	p.within(15*time.Second, `!document.querySelector("#policies .cm-content").innerText.includes("label team")`)
	p.click("#undo")
	p.says("#policies .cm-content", "label team is required")
	p.within(5*time.Second, `getComputedStyle([...document.querySelectorAll("#policies .cm-line")].find(l => l.innerText.startsWith("    "))).textIndent.startsWith("-")`)
}

// TestSaysWhatIsWrong has a misspelled field, which the editor says and mends.
func TestSaysWhatIsWrong(t *testing.T) {
	s := serve(t)
	p := browser(t, 1280, 800, "light")
	p.open(s)
	p.write(strings.ReplaceAll(saying("m"), "  validations:", "  validatons:"), "")
	p.within(15*time.Second, `document.querySelector(".cm-lintRange")`)
	for range 3 {
		p.press("F8", "Control+.")
	}
	p.says("#policies .cm-content", "  validations:")
}

// TestHostileTextsAreTexts has HTML in a message, in a name and in an object.
func TestHostileTextsAreTexts(t *testing.T) {
	const hostile = `<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>`
	s := serve(t)
	p := browser(t, 1280, 800, "dark")
	p.open(s)
	p.write(saying(strconv.Quote(hostile)),
		strings.ReplaceAll(pod, "name: web, namespace", "annotations: {a: "+strconv.Quote(hostile)+"}, name: web, namespace"))
	p.says("#result-panel", "onerror='window.hacked=1'")
	p.eval(`document.querySelector("#result-tab-text").click()`)
	p.says("#result-panel", "onerror='window.hacked=1'")
	if got := p.eval(`document.querySelectorAll("main img, main script").length + "," + window.hacked`); got != "0,undefined" {
		t.Errorf("a message became elements: %s", got)
	}
}

// TestSaysThatTheServerIsLost stops the server, lets it go on, ends it and starts another.
func TestSaysThatTheServerIsLost(t *testing.T) {
	s := serve(t)
	p := browser(t, 1280, 800, "light")
	p.open(s)
	p.write(saying("label team is required"), "")
	p.says("#result-panel", "a request is needed")

	start := time.Now()
	signal(t, s, syscall.SIGSTOP)
	p.says(".banner", "lost")
	t.Logf("said after %v", time.Since(start).Round(time.Millisecond))
	signal(t, s, syscall.SIGCONT)
	p.within(15*time.Second, `!document.querySelector(".banner")`)

	s.stop()
	p.says(".banner", "lost")
	next := serve(t, s.port(t))
	p.says(".banner", "Another run")
	p.do(chromedp.Navigate(next.address))
	p.says("#policies .cm-content", "label team is required")
	p.says("#result-panel", "a request is needed")
}

// TestNoViolationsOfAccessibility runs axe on what the page shows, in both themes and two widths.
func TestNoViolationsOfAccessibility(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("..", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("there is no axe-core: make page installs it, with npm")
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 1280} {
			t.Run(theme+strconv.FormatInt(width, 10), func(t *testing.T) {
				s := serve(t)
				p := browser(t, width, 800, theme)
				p.open(s)
				p.do(chromedp.Evaluate(string(axe), nil))
				check := func(state string) {
					t.Helper()
					for _, v := range violations(p) {
						t.Errorf("%s: %s", state, v)
					}
				}
				check("empty")
				p.click("#do-examples")
				p.within(5*time.Second, `document.activeElement.matches("input.big")`)
				p.paste("privileged")
				p.within(15*time.Second, `document.querySelector("#example-0")`)
				check("examples")
				p.press("Enter")
				p.within(15*time.Second, `document.querySelector("#verdict")`)
				for _, pane := range []string{"Policies", "Request", "Result"} {
					p.eval(`[...document.querySelectorAll(".switch button")].find(b => b.innerText.startsWith("` + pane + `")).click()`)
					check(pane)
				}
				p.within(15*time.Second, `document.querySelector("#result-panel[aria-busy=false]")`)
				for _, dialog := range []string{"why", "import", "case", "share", "open"} {
					p.click("#do-" + dialog)
					p.within(5*time.Second, `document.querySelector("dialog")`)
					check(dialog)
					p.press("Escape")
					p.within(5*time.Second, `!document.querySelector("dialog")`)
				}
				p.click("#do-test")
				p.says(".summary", "passed")
				check("cases")
			})
		}
	}
}

func violations(p *page) []string {
	p.t.Helper()
	result := p.eval(`axe.run().then(r => JSON.stringify(r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; "))))`)
	var all []string
	if err := json.Unmarshal([]byte(result), &all); err != nil {
		p.t.Fatal(err)
	}
	return all
}
