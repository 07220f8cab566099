use super::*;

const ALL: MetricsOptions = MetricsOptions { csv: true, tensorboard: true };

/// CRC-32C bit by bit, so that the reader shares no code with the writer.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// The data of each TFRecord, checksums verified.
fn read_records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let check = |data: &[u8], stored: &[u8]| {
        let crc = crc32c(data);
        let masked = crc.rotate_left(17).wrapping_add(0xa282_ead8);
        assert_eq!(masked.to_le_bytes(), stored, "checksum");
    };
    let (mut records, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        check(&rest[..8], &rest[8..12]);
        let data = &rest[12..12 + length];
        check(data, &rest[12 + length..16 + length]);
        records.push(data.to_vec());
        rest = &rest[16 + length..];
    }
    records
}

enum Field {
    Int(u64),
    Double(f64),
    Float(f32),
    Bytes(Vec<u8>),
}

/// The fields of a protocol buffer message.
fn read_message(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (head, tail) = bytes.split_at(len);
        *bytes = tail;
        head
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Int(varint(&mut bytes)),
            1 => Field::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let len = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, len).to_vec())
            }
            5 => Field::Float(f32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap())),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

/// `(step, tag, value)` of every scalar in the directory's one event file.
fn read_scalars(directory: &Path) -> Vec<(u64, String, f32)> {
    let paths: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let events: Vec<&PathBuf> = paths.iter().filter(|path| path.to_str().unwrap().contains("tfevents")).collect();
    assert_eq!(events.len(), 1, "{paths:?}");
    let records = read_records(&fs::read(events[0]).unwrap());
    let first = read_message(&records[0]);
    assert!(matches!(&first[0], (1, Field::Double(time)) if *time > 1.7e9));
    assert!(matches!(&first[1], (3, Field::Bytes(version)) if version == b"brain.Event:2"));
    let mut scalars = Vec::new();
    for record in &records[1..] {
        let (mut step, mut values) = (0, Vec::new());
        for (tag, field) in read_message(record) {
            match (tag, field) {
                (1, Field::Double(time)) => assert!(time > 1.7e9),
                (2, Field::Int(value)) => step = value,
                (5, Field::Bytes(summary)) => values = read_message(&summary),
                (tag, _) => panic!("field {tag}"),
            }
        }
        for value in values {
            let (1, Field::Bytes(value)) = value else { panic!("not a summary value") };
            let value = read_message(&value);
            let ((1, Field::Bytes(name)), (2, Field::Float(number))) = (&value[0], &value[1]) else {
                panic!("not a scalar")
            };
            scalars.push((step, String::from_utf8(name.clone()).unwrap(), *number));
        }
    }
    scalars
}

/// metrics.csv without the column `time`.
fn read_csv(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("metrics.csv")).unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            [&fields[..1], &fields[2..]].concat().join(",")
        })
        .collect()
}

/// `(step, values)` of metrics.jsonl.
fn read_jsonl(directory: &Path) -> Vec<(u64, Value)> {
    let text = fs::read_to_string(jsonl_path(directory)).unwrap();
    text.lines()
        .map(|line| {
            let mut record: Map<String, Value> = serde_json::from_str(line).unwrap();
            assert!(record.remove("time").unwrap().as_f64().unwrap() > 1.7e9);
            (record.remove("step").unwrap().as_u64().unwrap(), record.into())
        })
        .collect()
}

fn three_rows(directory: &Path) {
    let mut writer = MetricsWriter::create(directory, ALL).unwrap();
    writer.write(1, &[("actor/lr", 1e-6), ("reward/mean", 0.5)]).unwrap();
    writer.write(2, &[("eval/score", 0.25)]).unwrap();
    writer.write(300, &[("reward/mean", f64::NAN), ("a,\"b\"", 2.0)]).unwrap();
}

#[test]
fn the_three_files_hold_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    three_rows(dir.path());
    assert_eq!(
        read_jsonl(dir.path()),
        [
            (1, serde_json::json!({ "actor/lr": 1e-6, "reward/mean": 0.5 })),
            (2, serde_json::json!({ "eval/score": 0.25 })),
            (300, serde_json::json!({ "reward/mean": null, "a,\"b\"": 2.0 })),
        ]
    );
    assert_eq!(
        read_csv(dir.path()),
        ["step,actor/lr,reward/mean,eval/score,\"a,\"\"b\"\"\"", "1,0.000001,0.5,,", "2,,,0.25,", "300,,NaN,,2",]
    );
    let scalars = read_scalars(dir.path());
    assert_eq!(
        scalars[..3],
        [(1, "actor/lr".into(), 1e-6), (1, "reward/mean".into(), 0.5), (2, "eval/score".into(), 0.25),]
    );
    assert!(scalars[3].0 == 300 && scalars[3].1 == "reward/mean" && scalars[3].2.is_nan());
    assert_eq!(scalars[4], (300, "a,\"b\"".into(), 2.0));
}

#[test]
fn resuming_drops_what_came_after_the_step() {
    let dir = tempfile::tempdir().unwrap();
    three_rows(dir.path());
    let before = fs::read_to_string(jsonl_path(dir.path())).unwrap();
    let mut writer = MetricsWriter::resume(dir.path(), ALL, 2).unwrap();
    let kept = fs::read_to_string(jsonl_path(dir.path())).unwrap();
    assert!(before.starts_with(&kept), "the kept lines are as they were");
    writer.write(3, &[("eval/score", 0.75)]).unwrap();
    assert_eq!(read_jsonl(dir.path()).iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        read_csv(dir.path()),
        ["step,actor/lr,reward/mean,eval/score", "1,0.000001,0.5,", "2,,,0.25", "3,,,0.75"]
    );
    let steps: Vec<u64> = read_scalars(dir.path()).iter().map(|(step, ..)| *step).collect();
    assert_eq!(steps, [1, 1, 2, 3]);
}

#[test]
fn a_torn_last_line_is_dropped_and_a_bad_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    three_rows(dir.path());
    let path = jsonl_path(dir.path());
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{{\"step\":301,\"ti")).unwrap();
    MetricsWriter::resume(dir.path(), ALL, 1000).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);

    fs::write(&path, format!("{{\"a\":1}}\n{whole}")).unwrap();
    let error = MetricsWriter::resume(dir.path(), ALL, 1000).err().unwrap().to_string();
    assert!(error.contains("metrics.jsonl:1: not a metrics record: there is no step"), "{error}");
    for (bad, expected) in [
        (&b"\xff{}"[..], "metrics.jsonl:1: not a metrics record: expected value"),
        (b"{\"step\":1,\"time\":2,\"a\xff\":3}", "metrics.jsonl:1: not a metrics record: invalid unicode"),
        (b"{\"step\":1,\"time\":2,\"a\":\"b\"}", "metrics.jsonl:1: not a metrics record: `a` is no number"),
        (b"", "metrics.jsonl:1: not a metrics record: EOF"),
    ] {
        fs::write(&path, [bad, b"\n", whole.as_bytes()].concat()).unwrap();
        let error = read_metrics(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} lacks {expected}");
    }
}

#[test]
fn files_that_are_not_wanted_are_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let none = MetricsOptions { csv: false, tensorboard: false };
    MetricsWriter::resume(dir.path(), none, 0).unwrap().write(1, &[("a", 1.0)]).unwrap();
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["metrics.jsonl"]);
}

#[test]
fn another_runs_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    three_rows(dir.path());
    let error = MetricsWriter::create(dir.path(), ALL).err().unwrap().to_string();
    assert!(
        error.ends_with("metrics.jsonl: the file is there already: the directory belongs to another run"),
        "{error}"
    );
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let path = Path::new("/dev/full");
    if !path.exists() {
        eprintln!("SKIPPED: this system has no /dev/full to stand for a full disk");
        return;
    }
    let mut file = AppendFile::at_device(path);
    let error = file.append(b"x").unwrap_err().to_string();
    assert!(error.starts_with("/dev/full: No space left on device"), "{error}");
}
