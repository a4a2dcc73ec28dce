package linuxbox

import (
	"testing"

	"github.com/gavel-oj/gavel/internal/sandbox/umltest"
)

// TestOnCgroupV2UnderUML runs the conformance suite, and the tests of this
// package that depend on the kind of cgroup, on a real version 2 hierarchy.
func TestOnCgroupV2UnderUML(t *testing.T) {
	umltest.Machine{
		Mounts:    umltest.V2,
		Tests:     "^(TestConformance|TestStale.*|TestKilledWorker.*|TestNothingIsLeft.*|TestMachineOut.*)$",
		MinPassed: 170, Says: "Layout:v2 ",
	}.Run(t)
}

func TestOnHybridCgroupsUnderUML(t *testing.T) {
	umltest.Machine{
		Mounts:    umltest.Hybrid,
		Tests:     "^(TestConformance|TestNothingIsLeft.*)$/^(time|memory|processes)$/(cpu_loop|threads|too_much|innocent|fork_bomb|daemon|a_child)",
		MinPassed: 10, Says: "Layout:hybrid ",
	}.Run(t)
}
