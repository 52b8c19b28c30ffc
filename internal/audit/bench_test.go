package audit_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/audit"
	"github.com/usher-dev/usher/internal/compile"
)

// hundred returns a hundred policies for pods. Some pods fail some of them.
func hundred() []compile.Compiled {
	var all []compile.Compiled
	for i := range 100 {
		expression := []string{
			"object.spec.containers.all(c, c.image != 'forbidden%d')",
			"object.metadata.?labels.?app.orValue('') != 'app-%d'",
			"object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged || %d == 0)",
			"!has(object.spec.hostNetwork) || !object.spec.hostNetwork || %d == 0",
		}[i%4]
		all = append(all, compiled(fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "p%d"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
			"validations": [{"expression": %q, "message": "this is not allowed here"}], "bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`,
			i, fmt.Sprintf(expression, i))))
	}
	return all
}

// pod returns a pod of 4.3 KB that differs from all others in what the rules read.
func pod(n int) []byte {
	return []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-%[1]d-7d9c5b8f6-x2v4q","generateName":"web-%[1]d-7d9c5b8f6-","namespace":"team-%[2]d","uid":"5f0c2f66-2a8e-4a87-9f5d-%012[1]d",`+
		`"resourceVersion":"%[1]d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"app-%[1]d","pod-template-hash":"7d9c5b8f6","version":"v1"},"annotations":{"checksum/config":"%064[1]d"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d9c5b8f6","uid":"5f0c2f66-2a8e-4a87-9f5d-000000000000","controller":true,"blockOwnerDeletion":true}],"managedFields":[%[3]s]},`+
		`"spec":{"volumes":[{"name":"kube-api-access","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],`+
		`"containers":[{"name":"web","image":"registry.example/web:%[1]d","ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[{"name":"A","value":"b"},{"name":"C","value":"d"}],`+
		`"resources":{"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],`+
		`"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},`+
		`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}},`+
		`{"name":"proxy","image":"registry.example/proxy:v2","args":["--config","/etc/proxy","--level","info"],"resources":{"limits":{"cpu":"1","memory":"64Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],`+
		`"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-1","securityContext":{"runAsNonRoot":true},"schedulerName":"default-scheduler"},`+
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],"podIP":"10.0.0.1"}}`,
		n, n%50, strings.Repeat(`{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}},`, 8)+`{"manager":"kubelet"}`))
}

func heap() uint64 {
	// What is in pools goes with the second collection.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak follows the largest heap until stop is called.
func peak() (stop func() uint64) {
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		highest := uint64(0)
		for {
			metrics.Read(sample)
			highest = max(highest, sample[0].Value.Uint64())
			select {
			case <-done:
				most <- highest
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(done); return <-most }
}

// complete waits until all is judged.
func complete(tb testing.TB, a *audit.Auditor) {
	tb.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for after := uint64(0); ; {
		_, version, next := a.Changes(after)
		done := true
		for _, s := range a.Kinds() {
			done = done && s.Complete
		}
		if done {
			return
		}
		after = version
		select {
		case <-next:
		case <-time.After(time.Until(deadline)):
			tb.Fatalf("it is not complete: %+v", a.Kinds())
		}
	}
}

func benchmark(b *testing.B, objects, distinct int, o audit.Options) {
	policies := hundred()
	for b.Loop() {
		before := heap()
		highest := peak()
		start, cpu := time.Now(), cpuTime()
		a := audit.New(o)
		a.Enforce(compile.Order(policies))
		ctx, stop := context.WithCancel(b.Context())
		go a.Run(ctx)
		s := a.Sink(pods)
		s.Begin()
		for i := range objects {
			object := pod(i % distinct)
			if distinct < objects {
				object = []byte(strings.Replace(string(object), "-x2v4q", fmt.Sprintf("-%d", i), 1))
			}
			if err := s.Set(object); err != nil {
				b.Fatal(err)
			}
		}
		s.End()
		complete(b, a)
		first, firstCPU := time.Since(start), cpuTime()-cpu
		most := highest() - before
		live := heap() - before
		used := a.Stats().Used
		start, cpu = time.Now(), cpuTime()
		const changes = 5
		for i := range changes {
			changed := append([]compile.Compiled{}, policies...)
			changed[i] = hundredth(i)
			a.Enforce(compile.Order(changed))
			complete(b, a)
		}
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(objects)/changes, "µs-CPU/object-and-policy")
		b.ReportMetric(float64(first.Milliseconds()), "ms/audit")
		b.ReportMetric(float64(firstCPU.Microseconds())/float64(objects), "µs-CPU/object")
		b.ReportMetric(float64(time.Since(start).Milliseconds())/changes, "ms/policy")
		b.ReportMetric(float64(live)/float64(objects), "B-live/object")
		b.ReportMetric(float64(used)/float64(objects), "B-counted/object")
		b.ReportMetric(float64(most)/1e6, "MB-peak")
		states := a.Kinds()
		b.ReportMetric(float64(states[0].Projections), "projections")
		stop()
	}
}

func hundredth(n int) compile.Compiled {
	return compiled(fmt.Sprintf(`{"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": {"name": "p%d"}, "spec": {
		"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
		"validations": [{"expression": "object.spec.containers.all(c, c.image != 'other')"}], "bindings": [{"name": "all", "validationActions": ["Deny"]}]}}`, n))
}

func BenchmarkAudit(b *testing.B) {
	b.Run("20000 distinct", func(b *testing.B) { benchmark(b, 20000, 20000, audit.Options{CPU: 100}) })
	b.Run("200000 distinct", func(b *testing.B) { benchmark(b, 200000, 200000, audit.Options{CPU: 100, Memory: 256 << 20}) })
	b.Run("100000, 5000 distinct", func(b *testing.B) { benchmark(b, 100000, 5000, audit.Options{CPU: 100}) })
}
