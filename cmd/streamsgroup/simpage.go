package main

import (
	"fmt"
	"os"
	"time"

	"github.com/streamsgroup/streamsgroup/coordinator"
	"github.com/streamsgroup/streamsgroup/internal/sim"
	"github.com/streamsgroup/streamsgroup/internal/timeline"
	"github.com/streamsgroup/streamsgroup/membership"
)

// simPage draws a run.
type simPage struct{ recorder timeline.Recorder }

func (p *simPage) Coordinator(at time.Duration, e coordinator.Event) { p.recorder.Coordinator(at, e) }

func (p *simPage) Started(_ time.Duration, id, place string) { p.recorder.Name(id, place) }

func (p *simPage) Halted(at time.Duration, place, why string) { p.recorder.Halted(at, place, why) }

func (p *simPage) Member(at time.Duration, place string, e membership.Event) {
	p.recorder.Member(at, place, e)
}

func (p *simPage) Note(at time.Duration, text string) { p.recorder.Say(at, "world", text) }

// write makes a page of it.
func (p *simPage) write(path string, r *sim.Result) (err error) {
	if v := r.Violation; v != nil {
		p.recorder.Claim(v.String(), false)
	} else {
		p.recorder.Claim("no rule was broken, and the group has come to rest", true)
	}
	picture := p.recorder.Picture()
	picture.Title = fmt.Sprintf("simulation, seed %d", r.Plan.Seed)
	picture.Summary = fmt.Sprintf("%d steps, %d faults, %d heartbeats, %d group epochs, %d memberships.", r.Steps, r.Faults, r.Beats, r.Bumps, r.Members)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := picture.WriteHTML(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
