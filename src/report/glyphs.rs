//! The characters of a drawing and what they mean, in Unicode and in ASCII.
//!
//! Owns the one table of them. Must not know where they stand (`timeline`) or which colour a meaning has (`terminal`).

/// What a cell means; renderers choose its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text.
    Plain,
    /// Axis and acquire in flight.
    Faint,
    /// The lease's promise.
    Promise,
    /// Belief beyond the promise.
    Beyond,
    /// Two at once, and what is found.
    Overlap,
    /// A fault window.
    Fault,
    /// Something that a server, or a client, was seen to do.
    Event,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyph {
    /// The acquire is in flight.
    Flight,
    /// It is answered: granted.
    Grant,
    /// The lease is promised.
    Promise,
    /// The promise ends although the holder believes on.
    LeaseEnd,
    /// The holder believes, beyond the promise.
    Beyond,
    /// The holder believes no longer: it released, was told, or went away.
    LetGo,
    /// The holder died.
    Died,
    /// Two hold at once.
    Overlap,
    /// From here on the finding can be said.
    Found,
    /// A fault is active.
    Fault,
    /// It goes on beyond the drawing.
    On,
    /// A numbered event.
    Number(char),
    /// The axis, its beginning, a tick, its end.
    Axis,
    /// The beginning of the axis.
    AxisBegin,
    /// A tick of the axis.
    AxisTick,
    /// The end of the axis.
    AxisEnd,
}

impl Glyph {
    /// Its character.
    pub const fn char(self, unicode: bool) -> char {
        let (fine, plain) = match self {
            Self::Flight => ('·', '.'),
            Self::Grant => ('╞', '['),
            Self::Promise => ('═', '='),
            Self::LeaseEnd => ('╡', ']'),
            Self::Beyond => ('░', '-'),
            Self::LetGo => ('◆', 'R'),
            Self::Died => ('✝', 'X'),
            Self::Overlap => ('▓', '#'),
            Self::Found => ('▲', '^'),
            Self::Fault => ('▒', '~'),
            Self::On => ('→', '>'),
            Self::Number(n) => (n, n),
            Self::Axis => ('─', '-'),
            Self::AxisBegin => ('├', '+'),
            Self::AxisTick => ('┼', '+'),
            Self::AxisEnd => ('┤', '+'),
        };
        if unicode { fine } else { plain }
    }

    /// What it means.
    pub const fn paint(self) -> Paint {
        match self {
            Self::Flight | Self::Axis | Self::AxisBegin | Self::AxisTick | Self::AxisEnd => {
                Paint::Faint
            }
            Self::Grant | Self::Promise | Self::LeaseEnd => Paint::Promise,
            Self::Beyond | Self::LetGo | Self::Died | Self::On => Paint::Beyond,
            Self::Overlap | Self::Found => Paint::Overlap,
            Self::Fault => Paint::Fault,
            Self::Number(_) => Paint::Event,
        }
    }
}

/// The key to a drawing, in two lines.
pub fn legend(unicode: bool) -> [String; 2] {
    let key = |parts: &[(&[Glyph], &str)]| {
        let parts: Vec<String> = parts
            .iter()
            .map(|(glyphs, words)| {
                let glyphs: String = glyphs.iter().map(|g| g.char(unicode)).collect();
                format!("{glyphs} {words}")
            })
            .collect();
        parts.join("  ")
    };
    [
        key(&[
            (&[Glyph::Flight], "acquire in flight"),
            (&[Glyph::Grant, Glyph::Promise], "granted, promised"),
            (&[Glyph::LeaseEnd], "lease ends"),
            (&[Glyph::Beyond], "believed beyond it"),
        ]),
        key(&[
            (&[Glyph::LetGo], "let go"),
            (&[Glyph::Died], "died"),
            (&[Glyph::Overlap], "two at once"),
            (&[Glyph::Fault], "fault"),
            (&[Glyph::On], "goes on"),
            (&[Glyph::Found], "found"),
            (&[Glyph::Number('1')], "event"),
        ]),
    ]
}
