package dispatch

// turns keeps the lanes in their shares.
type turns struct {
	// runDebt is how far the run lane is ahead of its share of the grants
	// made while others waited, in thousandths of a grant.
	runDebt int64
	// pass is where each lane stands: it moves by the lane's stride with each
	// job that goes, so that a lane of weight 6 goes six times as often as one
	// of weight 1. The lane that stands furthest back goes next.
	pass [laneCount]int64
	now  int64 // where the lane stood that went last
}

// strideUnit is divided by a weight; it has many divisors, so shares are exact.
const strideUnit = 5040

func (b *Board) stride(lane Lane) int64 { return strideUnit / int64(max(1, b.policy.Weights[lane])) }

func (b *Board) othersWait() bool {
	return b.lanes[Judge].count+b.lanes[Prepare].count+b.lanes[Rejudge].count > 0
}

// runsMayGo says whether the run lane goes first now: always while nobody else
// waits, else within its share both of the grants and of the slots.
func (t *turns) runsMayGo(b *Board) bool {
	if !b.othersWait() {
		return true
	}
	share := int64(b.policy.RunShare * 1000)
	slots := max(1, int(b.policy.RunShare*float64(b.slots)))
	return t.runDebt+1000-share <= 1000 && b.lanes[Run].out < slots
}

// at is where a lane stands. One that had nothing ready stands where the lane
// stood that went last: it has its turn at once, but has not saved up any.
func (t *turns) at(lane Lane) int64 { return max(t.pass[lane], t.now) }

// went notes that a job of a lane is given away.
func (t *turns) went(b *Board, lane Lane) {
	share := int64(b.policy.RunShare * 1000)
	switch {
	case lane == Probe:
	case lane == Run && b.othersWait():
		t.runDebt += 1000 - share
	case lane == Run:
		t.runDebt = 0
	default:
		t.runDebt = max(0, t.runDebt-share)
		t.now = t.at(lane)
		t.pass[lane] = t.now + b.stride(lane)
	}
}
