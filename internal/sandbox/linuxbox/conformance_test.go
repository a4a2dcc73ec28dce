package linuxbox

import (
	"testing"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
)

func TestConformance(t *testing.T) {
	boxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, Config{}) })
}
