package sim

import (
	"github.com/streamsgroup/streamsgroup/coordinator/record"
)

// append writes records to the log. They are on disk a little later.
func (w *World) append(records []record.Record) {
	for _, r := range records {
		if f := w.mutant.Append; f != nil {
			if r = f(w, r); r == nil {
				continue
			}
		}
		w.log = append(w.log, r)
	}
	if err := w.checkBatch(records); err != nil {
		w.failf("record", "%v", err)
		return
	}
	delay := w.rnd.between(0, w.plan.Setup.Flush+1)
	if w.now < w.slowDiskTill {
		delay *= 100
	}
	w.flushAt = max(w.flushAt, w.now+delay)
	length, term := len(w.log), w.term
	if delay == 0 {
		w.flush(length, term)
		return
	}
	w.at(w.flushAt, nil, func() { w.flush(length, term) })
}

// flush is what reached the disk, unless it was lost meanwhile.
func (w *World) flush(length, term int) {
	if term != w.term || length <= w.flushed {
		return
	}
	w.flushed = length
	n := w.nodes[w.owner]
	for len(n.waiting) > 0 && n.waiting[0].length <= length {
		h := n.waiting[0]
		n.waiting = n.waiting[1:]
		w.answer(h.msg, h.resp)
	}
}

// truncate loses what is not on disk, or finds that it is all there. It returns
// whether something was lost.
func (w *World) truncate(lose bool) (lost bool) {
	w.term++
	w.flushAt = 0
	if !lose {
		w.flushed = len(w.log)
		return false
	}
	if w.flushed == len(w.log) {
		return false
	}
	w.tellf("%d records are lost, nobody was told of them", len(w.log)-w.flushed)
	w.log = w.log[:w.flushed]
	w.table = newTable()
	for _, r := range w.log {
		if err := w.table.apply(r); err != nil {
			w.failf("record", "after the loss of records: %v", err)
		}
	}
	for _, m := range w.live {
		if w.table.members[m.id] != nil {
			m.expired = false // nobody was told
		}
	}
	return true
}

// compact leaves out what a log need not keep: values that are overwritten, and
// the deletion of what is gone. All of the log must be on disk.
func (w *World) compact() {
	last := map[record.Key]int{}
	for i, r := range w.log {
		last[r.RecordKey()] = i
	}
	kept := w.log[:0:0]
	for i, r := range w.log {
		if _, gone := r.(record.Tombstone); !gone && last[r.RecordKey()] == i {
			kept = append(kept, r)
		}
	}
	w.log, w.flushed = kept, len(kept)
}
