package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A server is a running usher console.
type server struct {
	// address has the token.
	address string
	command *exec.Cmd
}

var printed = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\S+`)

// serve starts usher console with arguments. Without a port in them it takes a free one.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	bin := os.Getenv("USHER_BIN")
	if bin == "" {
		t.Fatal("USHER_BIN is not set: make browser sets it")
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--port") }) {
		args = append(args, "--port=0")
	}
	command := exec.CommandContext(t.Context(), bin, append([]string{"console", "--no-open"}, args...)...)
	command.Dir = t.TempDir()
	dies(command)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{command: command}
	t.Cleanup(s.stop)
	var all strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if s.address = printed.FindString(lines.Text()); s.address != "" {
			go func() {
				for lines.Scan() {
				}
			}()
			return s
		}
	}
	t.Fatalf("usher console printed no address:\n%s", all.String())
	return nil
}

func (s *server) stop() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// port of the server, as a flag for the next one.
func (s *server) port(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(s.address)
	if err != nil {
		t.Fatal(err)
	}
	return "--port=" + address.Port()
}

// A page is a tab of a browser of its own, which notes what must not happen.
type page struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// unexpected are errors of the page, violations of its policy, and requests to other origins.
	unexpected []string
}

// chromium returns the binary of the browser, or "". Debian's command is a script that leaves the browser
// running when it is ended.
func chromium() string {
	for _, name := range []string{"/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	return ""
}

// browser starts Chromium with a window of a size, in a theme: light or dark.
func browser(t *testing.T, width, height int64, theme string) *page {
	t.Helper()
	shell := chromium()
	if shell == "" {
		t.Skip("there is no chromium-headless-shell")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(shell), chromedp.NoSandbox,
		chromedp.ModifyCmdFunc(dies))
	// The test's own context ends before its cleanups, and the browser has to be closed by one.
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	// It has events that the library does not know.
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	// It waits until the browser has ended, and then has the error of a context that is canceled.
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.note)
	p.do(network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetDeviceMetricsOverride(width, height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, u := range p.unexpected {
			t.Error(u)
		}
	})
	return p
}

func (p *page) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.unexpected = append(p.unexpected, "exception: "+e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && (e.Entry.Source != log.SourceNetwork || strings.Contains(e.Entry.Text, "Content Security Policy")) {
			p.unexpected = append(p.unexpected, "log: "+e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		address := e.Request.URL
		if !strings.HasPrefix(address, "http://127.0.0.1:") && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "blob:") && address != "about:blank" {
			p.unexpected = append(p.unexpected, "request to another origin: "+address)
		}
	}
}

func (p *page) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// open loads the page of a server.
func (p *page) open(s *server) {
	p.t.Helper()
	p.do(chromedp.Navigate(s.address), chromedp.WaitVisible(`#policies .cm-content`, chromedp.ByQuery))
}

// eval returns the value of a JavaScript expression as text.
func (p *page) eval(expression string) string {
	p.t.Helper()
	var value any
	p.do(chromedp.Evaluate(expression, &value, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return fmt.Sprint(value)
}

// within waits until an expression is true, and fails with what the page says.
func (p *page) within(limit time.Duration, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		if p.eval("Boolean("+expression+")") == "true" {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v not true: %s\nthe page says:\n%s", limit, expression, p.eval(`document.querySelector("main").innerText`))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// says waits until an element has a text.
func (p *page) says(selector, text string) {
	p.t.Helper()
	p.within(15*time.Second, fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q))", selector, text))
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// press sends a key to what has the focus: "Control+k", "Tab", "F6".
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		var modifiers input.Modifier
		for {
			before, rest, found := strings.Cut(key, "+")
			if !found || rest == "" {
				break
			}
			modifiers |= map[string]input.Modifier{"Control": input.ModifierCtrl, "Shift": input.ModifierShift, "Alt": input.ModifierAlt}[before]
			key = rest
		}
		code := map[string]int64{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowRight": 39, "F6": 117, "F8": 119, "Delete": 46, "Home": 36, "End": 35, "/": 191, ".": 190}[key]
		if code == 0 {
			code = int64(strings.ToUpper(key)[0])
		}
		event := func(kind input.KeyType) *input.DispatchKeyEventParams {
			return input.DispatchKeyEvent(kind).WithKey(key).WithModifiers(modifiers).WithWindowsVirtualKeyCode(code)
		}
		down := event(input.KeyDown)
		if key == "Enter" && modifiers == 0 {
			down = down.WithText("\r")
		}
		p.do(down, event(input.KeyUp))
	}
}

// paste inserts a text where the cursor is, as a paste or an input method does.
func (p *page) paste(text string) {
	p.t.Helper()
	p.do(input.InsertText(text))
}

// turnTo goes from pane to pane, backwards, until an editor has the focus.
func (p *page) turnTo(editor string) {
	p.t.Helper()
	for range 20 {
		p.press("Shift+F6")
		for range 10 {
			if p.eval("document.activeElement.ariaLabel") == editor {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	p.t.Fatalf("the focus does not get to %s", editor)
}

// write fills in policies and, if there is one, an object, by keyboard.
func (p *page) write(policies, object string) {
	p.t.Helper()
	p.press("F6")
	p.within(5*time.Second, `document.activeElement.ariaLabel === "Policies"`)
	p.paste(policies)
	if object == "" {
		return
	}
	p.press("F6")
	p.within(5*time.Second, `document.activeElement.ariaLabel === "Object"`)
	p.paste(object)
}
