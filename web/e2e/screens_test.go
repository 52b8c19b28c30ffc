package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestScreens writes a picture of each state of the page, in both themes and three widths, to the folder
// SCREENS, for somebody to look at.
func TestScreens(t *testing.T) {
	folder := os.Getenv("SCREENS")
	if folder == "" {
		t.Skip("SCREENS is not set")
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 1280, 2000} {
			s := serve(t)
			p := browser(t, width, map[int64]int64{320: 640, 1280: 800, 2000: 1000}[width], theme)
			shot := func(state string) {
				var picture []byte
				p.do(chromedp.CaptureScreenshot(&picture))
				name := filepath.Join(folder, state+"-"+strconv.FormatInt(width, 10)+"-"+theme+".png")
				if err := os.WriteFile(name, picture, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p.open(s)
			show := func(pane string) {
				if width == 320 {
					p.eval(`[...document.querySelectorAll(".switch button")].find(b => b.innerText.startsWith("` + pane + `")).click()`)
				}
			}
			show("Result")
			shot("empty")
			p.click("#do-examples")
			p.within(5e9, `document.activeElement.matches("input.big")`)
			shot("examples")
			p.paste("privileged")
			p.within(15e9, `document.querySelector("#example-0")`)
			p.press("Enter")
			p.within(15e9, `document.querySelector("#verdict")`)
			shot("denied")
			show("Policies")
			shot("policies")
			p.click("#do-test")
			p.says(".summary", "passed")
			shot("cases")
			for _, dialog := range []string{"why", "import", "case", "share"} {
				p.click("#do-" + dialog)
				p.within(5e9, `document.querySelector("dialog")`)
				p.within(15e9, `[...document.querySelectorAll("dialog pre, dialog textarea[readonly]")].every(e => e.value || e.innerText)`)
				shot(dialog)
				p.press("Escape")
				p.within(5e9, `!document.querySelector("dialog")`)
			}
			show("Result")
			p.eval(`document.querySelector("#result-tab-decision").click()`)
			show("Request")
			p.eval(`document.querySelector("#request-tab-user").click()`)
			shot("user")
		}
	}
}

// TestDocument writes the pictures of the page for its document to the folder SCREENSHOTS.
func TestDocument(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS is not set")
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		s := serve(t)
		p := browser(t, 1280, 720, theme)
		p.open(s)
		p.write(saying("label team is required"), pod)
		p.says("#verdict", "Denied")
		p.within(15e9, `document.querySelector("#result-panel[aria-busy=false]")`)
		save := func(name string) {
			t.Helper()
			var picture []byte
			p.do(chromedp.CaptureScreenshot(&picture))
			if len(picture) > 150<<10 {
				t.Errorf("the picture has %d bytes, and at most 150 KiB are allowed", len(picture))
			}
			if err := os.WriteFile(filepath.Join(folder, name+"-"+theme+".png"), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		save("console")
		p.do(emulation.SetDeviceMetricsOverride(1280, 600, 1, false))
		if theme == "light" {
			p.visit(behind(t, full()), "violations?policy=ClusterObjectPolicy%20require-owner")
			p.within(15e9, `document.querySelector(".row-line")`)
			p.eval(`document.querySelectorAll(".row-line")[3].click()`)
			p.says("#detail", "Denied")
			save("console-violations")
		} else {
			p.visit(behind(t, full()), "live")
			p.says("#live .counts", "60 shown")
			p.eval(`document.querySelectorAll(".row-line")[4].click()`)
			p.says("#detail", "Denied")
			save("console-live")
		}
	}
}
