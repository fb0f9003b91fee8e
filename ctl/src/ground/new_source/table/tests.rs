use super::*;

fn format(json: &str) -> PayloadFormat {
    serde_json::from_str(json).expect("a format")
}

#[track_caller]
fn assert_table(text: &str, expected: &str, codes: &[&str]) -> FoundTable {
    let found = find_table(text).expect("a table");
    let found_codes: Vec<_> = found.remarks.iter().map(SourceRemark::code).collect();
    assert_eq!((&found.format, found_codes), (&format(expected), codes.to_vec()), "{text}");
    found
}

#[test]
fn delimiter_and_header_are_recognized() {
    for (text, expected, codes) in [
        ("city,height\nA,1\nB,2\n", r#"{"csv":{}}"#, &[][..]),
        ("city;height\nA;1,5\nB;2,5\n", r#"{"csv":{"delimiter":";"}}"#, &[]),
        ("city\theight\nA\t1\n", r#"{"tsv":{}}"#, &[]),
        ("city\theight\n\"A\"\t1\n", r#"{"csv":{"delimiter":"\t"}}"#, &[]),
        ("city\nA\n", r#"{"csv":{}}"#, &["header_uncertain"]),
        ("A title\ncity,height\nA,1\nB,2\n", r#"{"csv":{"skip_lines":1}}"#, &["lines_skipped"]),
        ("sep=;\r\na;b\r\nx;1,5\r\n", r#"{"csv":{"delimiter":";","skip_lines":1}}"#, &[]),
        ("name,2019,2020\nA,5,6\nB,7,8\n", r#"{"csv":{}}"#, &[]),
        ("Region,Q1,Q2\nN,5,6\nS,7,8\n", r#"{"csv":{}}"#, &[]),
        ("\"Area or\nregion\",\"People\n(thousands)\",Year\nNorth,\"68,170\",2023\n", r#"{"csv":{}}"#, &[]),
    ] {
        assert_table(text, expected, codes);
    }
}

#[test]
fn comments_are_no_header() {
    for (text, expected, codes) in [
        (
            "# Source: an agency, monthly, ppm\n# Contact: a, b, c\nyear,month,average\n2024,1,2.5\n2024,2,2.6\n",
            r##"{"csv":{"comment":"#"}}"##,
            &["comment_lines"][..],
        ),
        (
            "# a\n\n#b\nTitle\nx,y\n1,2\n3,4\n",
            r##"{"csv":{"comment":"#","skip_lines":4}}"##,
            &["comment_lines", "lines_skipped"],
        ),
        (
            "sep=;\n# a\nx;y\n1;2\n",
            r##"{"csv":{"delimiter":";","comment":"#","skip_lines":1}}"##,
            &["comment_lines"],
        ),
        ("#id,value\n1,2\n3,4\n", r#"{"csv":{}}"#, &[]),
        ("##x\n#id\tvalue\na\t2\nb\t4\n", r#"{"tsv":{"skip_lines":1}}"#, &["lines_skipped"]),
        ("#id,name\na,b\nc,d\n", r#"{"csv":{}}"#, &[]),
        ("% x\na,b\n1,2\n", r#"{"csv":{"comment":"%"}}"#, &["comment_lines"]),
    ] {
        assert_table(text, expected, codes);
    }
}

#[test]
fn header_that_does_not_fit_the_rows_gets_names_of_columns() {
    for (text, expected, codes) in [
        (
            "Date,Average,Trend\n1958-03,315.71,-01,-9.99\n1958-04,317.45,-01,-9.99\n",
            r#"{"csv":{"skip_lines":1,"columns":["Date","Average","Trend","column_4"]}}"#,
            &["header_length"][..],
        ),
        ("a,b,c,d\n1,2\n3,4\n", r#"{"csv":{"skip_lines":1,"columns":["a","b"]}}"#, &["header_length"]),
        ("1,2024-01-01\n2,2024-01-02\n", r#"{"csv":{"columns":["column_1","column_2"]}}"#, &["no_header"]),
        ("a,b,a\n1,2,3\n", r#"{"csv":{"skip_lines":1,"columns":["a","b","a_2"]}}"#, &["repeated_name"]),
    ] {
        assert_table(text, expected, codes);
    }
}

#[test]
fn columns_named_by_periods_are_unpivoted() {
    let wide = "\"Source\",\"WDI\",\n\n\"Updated\",\"2026\",\n\n\"Code\",\"1960\",\"1961\",\"1962\",\n\"A\",1,2,3,\n\"B, C\",1,2,3,\n";
    let unpivot = |columns: &str, name: &str, skip_lines: u16| {
        let unpivot = format!(r#"{{"columns":"{columns}","name":"{name}","value":"Value"}}"#);
        format!(r#"{{"csv":{{"skip_lines":{skip_lines},"unpivot":{unpivot}}}}}"#)
    };
    let found = assert_table(wide, &unpivot("[0-9]{4}", "Year", 4), &["lines_skipped", "unpivoted"]);
    assert_eq!(found.period, Some(None));
    let quarters = "a,2024Q1,2024Q2,2024Q3\nb,1,2,3\n";
    let found = assert_table(quarters, &unpivot("[0-9]{4}Q[1-4]", "Quarter", 0), &["unpivoted"]);
    assert_eq!(found.period, Some(Some("%YQ%q")));
    let seasons = "team,2008-09,2009-10,2010-11\nA,1,2,3\n";
    let found = assert_table(seasons, &unpivot("[0-9]{4}-[0-9]{2}", "Season", 0), &["unpivoted"]);
    assert_eq!(found.period, None);
    let padded = "geo,2019 ,2020 ,2021 \nAT,1,2,3\n";
    let found = assert_table(padded, &unpivot(r"\\s*[0-9]{4}\\s*", "Year", 0), &["unpivoted"]);
    assert_eq!(found.period, Some(None));
}

#[test]
fn header_is_recognized_if_its_names_begin_with_numbers_and_the_cells_are_numbers() {
    let unpivot =
        r#"{"csv":{"unpivot":{"columns":"[0-9]{4} \\[YR[0-9]{4}\\]","name":"Year","value":"Value"}}}"#;
    let rows = "Aruba,ABW,1.5,2\nKosovo,XKX,..,3.5\n";
    for years in ["2019 [YR2019],2020 [YR2020]", "2019 [YR2019],Note"] {
        let bank = format!("Country Name,Country Code,{years}\n{rows}");
        let found = assert_table(&bank, unpivot, &["unpivoted"]);
        assert_eq!(found.period, Some(Some("%Y [YR%Y]")));
    }
    for header in ["5 km,10 km", "2024-01-31,2024-02-29", "1st,2nd"] {
        assert_table(&format!("{header}\n1.5,2\n3,4\n"), r#"{"csv":{}}"#, &[]);
    }
    assert_table("<0.5,2\n1.5,2\n3,4\n", r#"{"csv":{"columns":["column_1","column_2"]}}"#, &["no_header"]);
}

#[test]
fn rows_of_delimiters_only_are_no_rows() {
    for text in [";\na;b\nx;1,5\n;\ny;2\n;;;\n;", "a;b\n;\nx;1,5\n;;\n"] {
        assert_table(text, r#"{"csv":{"delimiter":";"}}"#, &[]);
    }
}

#[test]
fn table_without_a_form_that_can_be_read_is_refused() {
    for text in ["", "\n \n", "year  month   value\n2024     1    2.5\n2024     2    2.6\n"] {
        assert!(find_table(text).is_err(), "{text:?}");
    }
}

#[test]
fn new_field_of_a_wide_table_has_no_name_of_a_column() {
    let (unpivot, _) =
        find_periods(&["Year", "1999", "2000", "2001"].map(str::to_owned)).expect("a wide table");
    assert_eq!((unpivot.name.as_str(), unpivot.value.as_str()), ("Year_", "Value"));
}

#[test]
fn pattern_selects_the_measured_columns_only() {
    let pattern = |header: &[&str], measured: &[&str]| {
        let header: Vec<_> = header.iter().map(|name| (*name).to_owned()).collect();
        unpivot_measured(&header, &measured.iter().copied().collect()).map(|unpivot| unpivot.columns).ok()
    };
    for (header, measured, expected) in [
        (&["id", "m1", "m20"][..], &["m1", "m20"][..], Some("m[0-9]+")),
        (&["id", "PM2.5", "PM10"], &["PM2.5", "PM10"], Some(r"PM[0-9]+|PM[0-9]+\.[0-9]+")),
        (&["sample id", "a_b", "c_d"], &["a_b", "c_d"], Some("a_b|c_d")),
        (&["id", "a\u{1}b", "c<d", "5 €"], &["a\u{1}b", "c<d", "5 €"], Some("[0-9]+ €|a.b|c<d")),
    ] {
        assert_eq!(pattern(header, measured).as_deref(), expected, "{header:?}");
    }
    let many: Vec<_> = (0..300)
        .map(|number| format!("{}x", ["a", "b"].map(|part| part.repeat(number + 1)).join("_")))
        .collect();
    let names: Vec<_> = ["id"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(pattern(&names, &names[1..]).as_deref(), Some("[A-Za-z]+_[A-Za-z]+"));
    assert_eq!(pattern(&names, &names[2..]), None, "a name of the same shape");
}
