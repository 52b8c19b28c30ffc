// Package policy is compiled into the package of that name of k8s.io/pod-security-admission, whose
// tests then ask Usher in place of its checks.
package policy

import (
	"reflect"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/oracle"
)

// newest is a version after the last one in which a check changed.
const newest = 38

// place is a check at a version, as a pod of that level meets it.
type place struct {
	Check   CheckID
	Level   api.Level
	Version string
}

// question is what the test process is asked.
type question struct {
	Test   string
	Places []place
	Pod    *corev1.Pod
}

// answer is what it says: the checks of all places say the same.
type answer struct {
	Allowed        bool
	Reason, Detail string
}

// ask asks Usher what the function of a check says about a pod.
func ask(function string, meta *metav1.ObjectMeta, spec *corev1.PodSpec) CheckResult {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: *spec}
	if meta != nil {
		pod.ObjectMeta = *meta
	}
	var a answer
	if err := oracle.Ask(question{Test: caller(), Places: places(function), Pod: pod}, &a); err != nil {
		return CheckResult{ForbiddenReason: "no answer: " + err.Error()}
	}
	return CheckResult{Allowed: a.Allowed, ForbiddenReason: a.Reason, ForbiddenDetail: a.Detail}
}

// places returns where the evaluator uses the function: for each level that has the check, the first
// and the last version.
func places(function string) []place {
	var found []place
	for _, check := range DefaultChecks() {
		for i, c := range check.Versions {
			if name(c.CheckPod) != function {
				continue
			}
			last := api.MajorMinorVersion(1, newest)
			if i+1 < len(check.Versions) {
				last = api.MajorMinorVersion(1, check.Versions[i+1].MinimumVersion.Minor()-1)
			}
			for _, v := range []api.Version{c.MinimumVersion, last} {
				found = append(found, place{check.ID, check.Level, v.String()})
				if check.Level == api.LevelBaseline && !overridden(check.ID, v) {
					found = append(found, place{check.ID, api.LevelRestricted, v.String()})
				}
			}
		}
	}
	return found
}

// overridden reports whether restricted has a check in place of this one.
func overridden(id CheckID, v api.Version) bool {
	for _, check := range DefaultChecks() {
		var inForce VersionedCheck
		for _, c := range check.Versions {
			if !v.Older(c.MinimumVersion) {
				inForce = c
			}
		}
		if slices.Contains(inForce.OverrideCheckIDs, id) {
			return true
		}
	}
	return false
}

func name(fn CheckPodFn) string {
	full := runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name()
	return full[strings.LastIndex(full, ".")+1:]
}

// caller returns the test function that runs.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		last := frame.Function[strings.LastIndex(frame.Function, "/")+1:]
		if parts := strings.Split(last, "."); len(parts) > 1 && strings.HasPrefix(parts[1], "Test") {
			return parts[1]
		}
		if !more {
			return ""
		}
	}
}
