package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestSite reads the web site of the documents, wide in the light theme and narrow in the dark one: nothing is loaded from other
// origins, nothing is wider than the screen, axe finds no violations, and the search leads to a section by keyboard.
func TestSite(t *testing.T) {
	folder := os.Getenv("SITE")
	if folder == "" {
		t.Skip("SITE is not set: make browser sets it to what make site writes")
	}
	axe, err := os.ReadFile(filepath.Join("..", "console", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("there is no axe-core: make page installs it, with npm")
	}
	s := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(s.Close)
	for theme, width := range map[string]int64{"light": 1280, "dark": 320} {
		t.Run(theme+strconv.FormatInt(width, 10), func(t *testing.T) {
			p := browser(t, width, 800, theme)
			for _, name := range []string{"", "docs/", "docs/install.html", "docs/console.html", "docs/reference/cel.html"} {
				p.do(chromedp.Navigate(s.URL+"/"+name), chromedp.WaitVisible("main", chromedp.ByQuery))
				if p.eval(`document.documentElement.scrollWidth <= innerWidth`) != "true" {
					t.Errorf("/%s is wider than %d: %s", name, width, p.eval(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, pre")).map(e => e.outerHTML.slice(0, 100)).join("; ")`))
				}
				p.do(chromedp.Evaluate(string(axe), nil))
				for _, v := range violations(p) {
					t.Errorf("/%s: %s", name, v)
				}
			}
			dark := p.eval(`getComputedStyle(document.body).backgroundColor`) != "rgb(255, 255, 255)"
			if dark != (theme == "dark") {
				t.Error("the background is that of another theme")
			}
			p.press("/")
			p.within(5*time.Second, `document.activeElement.id === "query"`)
			p.paste("nonesuchword")
			p.says("#found p", "0 results")
			p.eval(`document.querySelector("#query").value = ""`)
			p.paste("uninstall helm")
			p.says("#found a", "Install › Uninstall")
			for _, v := range violations(p) {
				t.Errorf("search: %s", v)
			}
			p.press("Escape")
			p.within(5*time.Second, `document.querySelector("#found").hidden`)
			p.paste(" ")
			p.says("#found a", "Install › Uninstall")
			p.press("Enter")
			p.within(5*time.Second, `location.hash !== "" && document.querySelector("h1")`)
		})
	}
}
