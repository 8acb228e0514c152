//! `doctor`: what puts the locks at risk, and what mends it.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use leasehold::{Diagnosis, Severity};

use super::args::{Doctor, Server};
use super::failure::{Failure, code};
use super::ls::to_json;
use super::text::{counted, pad, plain};

const PROBLEM: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const FINE: Style = AnsiColor::Green.on_default();

pub(super) async fn doctor(server: &Server, doctor: &Doctor, json: bool) -> Result<u8, Failure> {
    // A server that can't be reached is a finding, too.
    let diagnosis = server.connect_lazy("leasehold")?.diagnose().await;
    let mut out = anstream::stdout();
    if json {
        writeln!(out, "{}", to_json(&diagnosis)?)?;
    } else {
        write(&mut out, &diagnosis)?;
    }
    let is_bad = |severity| doctor.strict || severity != Severity::Warning;
    let found = diagnosis.findings.iter().any(|finding| is_bad(finding.severity));
    Ok(if found { code::NOTHING_DONE } else { 0 })
}

fn write(out: &mut impl Write, diagnosis: &Diagnosis) -> std::io::Result<()> {
    for fact in &diagnosis.facts {
        let server = plain(&fact.server);
        writeln!(out, "{}  {}  {}", pad(fact.name, 22), pad(&server, 22), plain(&fact.value))?;
    }
    for finding in &diagnosis.findings {
        let (style, word) = match finding.severity {
            Severity::Warning => (WARNING, "warning"),
            _ => (PROBLEM, "problem"),
        };
        let server = plain(&finding.server);
        let at = if server.is_empty() { String::new() } else { format!(" on {server}") };
        writeln!(out, "\n{style}{word}{style:#}: {}{at}", finding.check)?;
        writeln!(out, "  found:   {}", plain(&finding.found))?;
        writeln!(out, "  means:   {}", plain(&finding.meaning))?;
        writeln!(out, "  fix:     {}", plain(&finding.remedy))?;
    }
    if diagnosis.findings.is_empty() {
        return writeln!(out, "\n{FINE}nothing puts the locks at risk{FINE:#}");
    }
    let count = |severity| {
        diagnosis.findings.iter().filter(|finding| finding.severity == severity).count() as u64
    };
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    writeln!(out, "\n{}, {}", counted(problems, "problem"), counted(warnings, "warning"))
}
